//! Pods started and deleted, one by one and many at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::dice::Dice;
use crate::pods::seen;
use crate::report::say;

use super::goals::Row;
use super::node::Node;
use super::requests;
use super::template::{self, Shape};
use super::{answer, in_turns};

/// The pods of a burst.
pub(super) const AT_ONCE: u32 = 50;
/// Between a pod's start and its deletion: what follows a start is not part of a deletion.
const PAUSE: Duration = Duration::from_millis(300);

/// How long something took for the last of some pods.
struct Took {
    running: Duration,
    ready: Duration,
    gone: Duration,
}

/// Each shape of pod in turns, after a round that does not count.
pub(super) fn single(nodes: &mut [Node], samples: usize, dice: &mut Dice) -> anyhow::Result<()> {
    for round in 0..=samples {
        say(&format!("agent: pods one by one, {round} of {samples}"));
        let before = asked(nodes)?;
        for shape in Shape::ALL {
            for node in in_turns(nodes, dice) {
                let took = pods(node, shape, 1).with_context(|| node.results.kind.name())?;
                node.side(Row::Running(shape)).add(&answer(took.running));
                node.side(Row::Ready(shape)).add(&answer(took.ready));
                node.side(Row::Gone(shape)).add(&answer(took.gone));
            }
        }
        let after = asked(nodes)?;
        for (node, (before, after)) in nodes.iter_mut().zip(before.into_iter().zip(after)) {
            node.side(Row::Requests).add_value(per_pod(after - before));
        }
        if round == 0 {
            nodes.iter_mut().for_each(forget);
        }
    }
    Ok(())
}

/// What is done for the first time only is not what is measured.
fn forget(node: &mut Node) {
    node.results.rows.retain(|row, _| matches!(row, Row::Memory { .. } | Row::Resident { .. }));
}

fn asked(nodes: &[Node]) -> anyhow::Result<Vec<f64>> {
    nodes.iter().map(|node| Ok(requests::about_pods(&node.metrics()?))).collect()
}

/// Without our own: a POST and a DELETE for each pod.
fn per_pod(requests: f64) -> f64 {
    let pods = f64::from(u32::try_from(Shape::ALL.len()).unwrap_or(1));
    requests / pods - 2.0
}

/// Many pods at once.
pub(super) fn bursts(nodes: &mut [Node], repeats: usize, dice: &mut Dice) -> anyhow::Result<()> {
    for round in 0..repeats {
        say(&format!("agent: {AT_ONCE} pods at once, {} of {repeats}", round + 1));
        for node in in_turns(nodes, dice) {
            let took = pods(node, Shape::MANY, AT_ONCE).with_context(|| node.results.kind.name())?;
            node.side(Row::BurstRunning).add(&answer(took.running));
            node.side(Row::BurstReady).add(&answer(took.ready));
            node.side(Row::BurstGone).add(&answer(took.gone));
        }
    }
    Ok(())
}

fn pods(node: &Node, shape: Shape, count: u32) -> anyhow::Result<Took> {
    let marks = seen::fresh_marks(count);
    let began = Instant::now();
    let running = start(node, shape, &marks, began)?;
    let names: Vec<String> = marks.iter().map(|mark| template::name(*mark)).collect();
    let names = names.iter().map(String::as_str);
    let ready = node.watched.until(&names, |_, seen| seen.ready)?;
    std::thread::sleep(PAUSE);
    let gone = remove(node, &marks)?;
    Ok(Took { running, ready: ready.saturating_duration_since(began), gone })
}

/// Deletes pods; returns when the API server has none of them any more, and their processes are gone.
pub(super) fn remove(node: &Node, marks: &BTreeSet<u32>) -> anyhow::Result<Duration> {
    let began = Instant::now();
    marks.iter().try_for_each(|mark| node.delete(*mark))?;
    let names: Vec<String> = marks.iter().map(|mark| template::name(*mark)).collect();
    let names = names.iter().map(String::as_str);
    let gone = node.watched.until(&names, |_, seen| seen.gone)?;
    seen::until_none_runs(marks, began)?;
    names.for_each(|name| node.watched.forget(name));
    std::thread::sleep(PAUSE);
    Ok(gone.saturating_duration_since(began))
}

/// Returns when the processes of all were seen.
pub(super) fn start(
    node: &Node,
    shape: Shape,
    marks: &BTreeSet<u32>,
    began: Instant,
) -> anyhow::Result<Duration> {
    marks.iter().try_for_each(|mark| node.post(shape, *mark))?;
    seen::until_all_run(marks, began)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_requests_are_not_the_nodes() {
        // Four pods, of which we posted and deleted each: eight requests of 40 are ours.
        assert_eq!(per_pod(40.0), 8.0);
    }
}
