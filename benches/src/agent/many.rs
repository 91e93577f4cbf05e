//! One node of the agent with its built-in runtime and as many pods as it may have: what a pod costs by the number of pods
//! that run already, and many pods at once. No peer: the question is whether the cost of a pod grows.
//!
//! The pods that are started one after the other come first, on an agent that has had one pod: memory that a burst has freed
//! would be used again, and hide what each pod adds.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::dice::Dice;
use crate::growth::{Growth, Point, Subject};
use crate::measure::{Measure, Side, Sides, Unit};
use crate::pods::seen;
use crate::report::{Report, say};

use super::goals::Scope;
use super::node::{Kind, Node};
use super::template::{self, Shape};
use super::usage::{self, Ticks};
use super::{answer, api, idle, rounds};

/// The pods of a full node.
const FULL: u32 = 250;
/// Memory and CPU time are read each time so many pods more are ready.
const STEP: u32 = 25;
/// The pods of a burst.
const AT_ONCE: u32 = 100;
/// So many starts on a full node are compared with as many on an empty one.
const COMPARED: usize = 50;
/// Until nothing more is done for the starts before.
const SETTLE: Duration = Duration::from_secs(10);
/// The time over which CPU time is read: on the full node longer, for a row of its own.
const WINDOW: Duration = Duration::from_secs(10);
const WINDOWS: u32 = 2;
const WINDOWS_WHEN_FULL: u32 = 6;

/// What the suite needs.
pub(crate) struct Many {
    /// How often many pods are started at once.
    pub(crate) repeats: usize,
}

impl Many {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        say("many: starting the node");
        // It ends with this value, and its pods with it: also where a measurement breaks off.
        let node = Node::start(Kind::AgentAlone)?;
        let taken = self.measure(&node).inspect_err(|_| node.print_log())?;
        drop(node);
        taken.judge(dice, report);
        Ok(())
    }

    fn measure(&self, node: &Node) -> anyhow::Result<Taken> {
        let mut taken = Taken::default();
        // What is done for the first pod only is not what is measured.
        let first = seen::fresh_marks(1);
        start(node, &first)?;
        rounds::remove(node, &first)?;
        let marks = fill(node, &mut taken)?;
        say(&format!("many: deleting {FULL} pods"));
        taken.gone.add(&answer(rounds::remove(node, &marks)?));
        for round in 0..self.repeats {
            say(&format!("many: {AT_ONCE} pods at once, {} of {}", round + 1, self.repeats));
            burst(node, &mut taken)?;
        }
        Ok(taken)
    }
}

/// The samples.
#[derive(Default)]
struct Taken {
    /// POST to Ready, one pod after the other.
    starts: Vec<Point>,
    /// Bytes of proportional memory.
    memory: BTreeMap<Scope, Vec<Point>>,
    /// Seconds of CPU time in a window without a start.
    cpu: BTreeMap<Scope, Vec<Point>>,
    gone: Side,
    /// POST to Ready of each pod of a burst.
    burst_each: Side,
    /// From the first POST of a burst until the last pod is Ready.
    burst_ready: Side,
    burst_gone: Side,
}

/// How long pods took until they were Ready.
struct Started {
    /// Each from its own POST.
    each: Vec<Duration>,
    /// All from the first POST.
    all: Duration,
}

fn start(node: &Node, marks: &BTreeSet<u32>) -> anyhow::Result<Started> {
    let began = Instant::now();
    let mut posted = Vec::new();
    for mark in marks {
        posted.push((template::name(*mark), Instant::now()));
        node.post(Shape::MANY, *mark)?;
    }
    let (mut each, mut all) = (Vec::new(), Duration::ZERO);
    for (name, at) in posted {
        let ready = node.watched.until(&once(name.as_str()), |_, seen| seen.ready)?;
        each.push(ready.saturating_duration_since(at));
        all = all.max(ready.saturating_duration_since(began));
    }
    Ok(Started { each, all })
}

/// Starts one pod after the other until the node is full. All of them run on.
fn fill(node: &Node, taken: &mut Taken) -> anyhow::Result<BTreeSet<u32>> {
    let mut marks = BTreeSet::new();
    read(node, taken, 0)?;
    for pods in 0..FULL {
        let mark = seen::fresh_marks(1);
        let started = start(node, &mark).with_context(|| format!("with {pods} pods"))?;
        let costs = started.each.iter().map(Duration::as_secs_f64);
        taken.starts.extend(costs.map(|cost| Point { pods, cost }));
        marks.extend(mark);
        if (pods + 1).is_multiple_of(STEP) {
            read(node, taken, pods + 1)?;
        }
    }
    all_are_ready(node, FULL)?;
    Ok(marks)
}

fn burst(node: &Node, taken: &mut Taken) -> anyhow::Result<()> {
    // All bursts find the same: a pod without a free block would wait for one.
    node.until_blocks_are_free()?;
    let marks = seen::fresh_marks(AT_ONCE);
    let started = start(node, &marks)?;
    all_are_ready(node, AT_ONCE)?;
    started.each.into_iter().for_each(|took| taken.burst_each.add(&answer(took)));
    taken.burst_ready.add(&answer(started.all));
    taken.burst_gone.add(&answer(rounds::remove(node, &marks)?));
    Ok(())
}

/// Memory and CPU time with so many idle pods.
fn read(node: &Node, taken: &mut Taken, pods: u32) -> anyhow::Result<()> {
    say(&format!("many: memory and CPU time with {pods} pods"));
    sleep(SETTLE);
    let windows = if pods == FULL { WINDOWS_WHEN_FULL } else { WINDOWS };
    let mut before = ticks(node)?;
    for _ in 0..windows {
        sleep(WINDOW);
        let after = ticks(node)?;
        for (scope, ticks) in &after {
            let cost = before.get(scope).map_or(0.0, |earlier| usage::seconds(earlier, ticks));
            taken.cpu.entry(*scope).or_default().push(Point { pods, cost });
        }
        before = after;
        for (scope, pids) in idle::processes(node)? {
            let cost = usage::memory(&pids).proportional;
            taken.memory.entry(scope).or_default().push(Point { pods, cost });
        }
    }
    Ok(())
}

fn ticks(node: &Node) -> anyhow::Result<BTreeMap<Scope, Ticks>> {
    Ok(idle::processes(node)?.into_iter().map(|(scope, pids)| (scope, usage::ticks(&pids))).collect())
}

/// All of them at the same time, and none by a restart.
fn all_are_ready(node: &Node, pods: u32) -> anyhow::Result<()> {
    let all = node.pods()?;
    ensure!(all.len() == usize::try_from(pods)?, "the API server has {} pods, not {pods}", all.len());
    for pod in all {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let status = pod.get("status").with_context(|| format!("pod {name} has no status"))?;
        let restarts = status.pointer("/containerStatuses/0/restartCount").and_then(Value::as_u64);
        ensure!(
            api::is_ready(status) && restarts == Some(0),
            "pod {name} is not ready, or was restarted: {status}"
        );
    }
    Ok(())
}

impl Taken {
    fn judge(self, dice: &mut Dice, report: &mut Report) {
        let when_full = |points: &BTreeMap<Scope, Vec<Point>>, scope| {
            let mut side = Side::default();
            let points = points.get(&scope).into_iter().flatten().filter(|point| point.pods == FULL);
            points.for_each(|point| side.add_value(point.cost));
            side
        };
        let mut starts = Side::default();
        self.starts.iter().for_each(|point| starts.add_value(point.cost));
        let mut rows = vec![
            (format!("{FULL} one after the other, POST to Ready, each"), Unit::Seconds, starts),
            (format!("{FULL} deleted at once, until the last is gone"), Unit::Seconds, self.gone),
            (format!("{AT_ONCE} at once, POST to Ready, each"), Unit::Seconds, self.burst_each),
            (format!("{AT_ONCE} at once, first POST to last Ready"), Unit::Seconds, self.burst_ready),
            (format!("{AT_ONCE} deleted at once, until the last is gone"), Unit::Seconds, self.burst_gone),
        ];
        for scope in [Scope::Agent, Scope::Node] {
            let (name, window) = (scope.name(), WINDOW.as_secs());
            let memory = when_full(&self.memory, scope);
            rows.push((format!("PSS of the {name}, {FULL} pods"), Unit::Bytes, memory));
            let cpu = when_full(&self.cpu, scope);
            rows.push((format!("CPU in {window} s of the {name}, {FULL} idle pods"), Unit::Seconds, cpu));
        }
        for (name, unit, side) in rows {
            let name = format!("many: {name}");
            report.measures.push(Measure::new(&name, Sides::only_ours(side), None, dice).in_unit(unit));
        }
        let subject = Subject { name: "POST to Ready".to_owned(), unit: Unit::Seconds };
        report.growths.push(Growth::of_each(subject, self.starts, COMPARED, dice));
        for (what, unit, all) in [("PSS", Unit::Bytes, self.memory), ("CPU in 10 s", Unit::Seconds, self.cpu)]
        {
            for (scope, points) in all {
                let subject = Subject { name: format!("{what} of the {}", scope.name()), unit };
                report.growths.push(Growth::of_all(subject, points, dice));
            }
        }
        report.notes.push(format!(
            "many: one node of the agent with its built-in runtime; POST to Ready is by a watch on the API server, from the \
             POST of each pod; all {FULL} pods were ready at the same time, and each of {AT_ONCE} at once"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_samples_and_each_cost_its_verdict() {
        let starts = (0..FULL).map(|pods| Point { pods, cost: 0.2 }).collect();
        let mut taken = Taken { starts, ..Taken::default() };
        for scope in [Scope::Agent, Scope::Node] {
            let levels = (0..=FULL / STEP).map(|level| level * STEP);
            let points: Vec<Point> =
                levels.map(|pods| Point { pods, cost: 1e6 + 1e5 * f64::from(pods) }).collect();
            taken.memory.insert(scope, points.clone());
            taken.cpu.insert(scope, points);
        }
        for side in [&mut taken.gone, &mut taken.burst_each, &mut taken.burst_ready, &mut taken.burst_gone] {
            side.add_value(3.0);
        }
        let mut report = Report::default();
        taken.judge(&mut Dice::new(1), &mut report);
        assert_eq!((report.measures.len(), report.growths.len()), (9, 5));
        let samples: Vec<usize> = report
            .measures
            .iter()
            .map(|one| one.ours.as_ref().map_or(0, |side| side.samples.len()))
            .collect();
        assert_eq!(samples, [250, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert!(report.all_met(), "{}", report.table());
    }
}
