//! Many pods that do nothing: what the node needs for them, and how long an agent that is started again needs to know them.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use testbed::{Part, faults};

use crate::dice::Dice;
use crate::pods::seen;
use crate::report::say;

use super::goals::{Row, Scope};
use super::node::Node;
use super::template::{self, Shape};
use super::usage::{self, Ticks};
use super::{answer, in_turns, rounds};

/// How many pods there are when the memory is read.
pub(super) const LEVELS: [u32; 4] = [0, 10, 50, 100];
const READINGS: u32 = 3;
/// CPU time is read over a minute, on all nodes at the same time.
const WINDOWS: u32 = 6;
const WINDOW: Duration = Duration::from_secs(10);
/// After many pods have started, and after an agent has: until nothing more is done for that.
const SETTLE: Duration = Duration::from_secs(15);
/// A deadline of pods that never comes; each recovery lowers it, which makes a new generation of each pod.
const DEADLINE: u32 = 1_000_000;

pub(super) fn run(nodes: &mut [Node], repeats: usize, dice: &mut Dice) -> anyhow::Result<()> {
    for level in LEVELS.into_iter().filter(|level| *level > 0) {
        for node in in_turns(nodes, dice) {
            fill(node, level).with_context(|| node.results.kind.name())?;
        }
        memory(nodes, level)?;
    }
    cpu(nodes)?;
    for round in 0..repeats {
        say(&format!("agent: restart with {} pods, {} of {repeats}", pods_at_most(), round + 1));
        let deadline = DEADLINE - u32::try_from(round).unwrap_or(0);
        for node in in_turns(nodes, dice) {
            let took = recover(node, deadline).with_context(|| node.results.kind.name())?;
            node.side(Row::Recovery).add(&answer(took));
        }
        sleep(SETTLE);
    }
    Ok(())
}

pub(super) fn pods_at_most() -> u32 {
    LEVELS.into_iter().max().unwrap_or(0)
}

/// Starts pods until there are so many, and waits until all are ready.
fn fill(node: &mut Node, level: u32) -> anyhow::Result<()> {
    let missing = level.saturating_sub(u32::try_from(node.idle.len())?);
    let marks = seen::fresh_marks(missing);
    rounds::start(node, Shape::MANY, &marks, Instant::now())?;
    let names: Vec<String> = marks.iter().map(|mark| template::name(*mark)).collect();
    node.watched.until(&names.iter().map(String::as_str), |_, seen| seen.ready)?;
    node.idle.extend(marks);
    Ok(())
}

/// The processes of each extent.
pub(super) fn processes(node: &Node) -> anyhow::Result<[(Scope, Vec<u32>); 2]> {
    Ok([(Scope::Agent, vec![node.agent()?]), (Scope::Node, usage::servers(node.supervisor()?))])
}

/// Reads the memory of all nodes in turns.
pub(super) fn memory(nodes: &mut [Node], pods: u32) -> anyhow::Result<()> {
    say(&format!("agent: memory with {pods} pods"));
    sleep(SETTLE);
    for _ in 0..READINGS {
        for node in &mut *nodes {
            for (scope, pids) in processes(node)? {
                let memory = usage::memory(&pids);
                node.side(Row::Memory { scope, pods }).add_value(memory.proportional);
                node.side(Row::Resident { scope, pods }).add_value(memory.resident);
            }
        }
        sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn cpu(nodes: &mut [Node]) -> anyhow::Result<()> {
    say(&format!("agent: CPU time over {WINDOWS} times {WINDOW:?}"));
    let mut before = readings(nodes)?;
    for _ in 0..WINDOWS {
        sleep(WINDOW);
        let after = readings(nodes)?;
        for (node, (before, after)) in nodes.iter_mut().zip(before.iter().zip(&after)) {
            for (scope, ticks) in after {
                let used = before.get(scope).map_or(0.0, |earlier| usage::seconds(earlier, ticks));
                node.side(Row::Cpu(*scope)).add_value(used);
            }
        }
        before = after;
    }
    Ok(())
}

fn readings(nodes: &[Node]) -> anyhow::Result<Vec<BTreeMap<Scope, Ticks>>> {
    let of = |node: &Node| {
        Ok(processes(node)?.into_iter().map(|(scope, pids)| (scope, usage::ticks(&pids))).collect())
    };
    nodes.iter().map(of).collect()
}

/// Kills the agent, changes every pod, starts it again, and waits until each pod's status is one of the changed pod.
fn recover(node: &mut Node, deadline: u32) -> anyhow::Result<Duration> {
    faults::kill(&node.testbed, Part::Kubelet)?;
    let patch = json!({"spec": {"activeDeadlineSeconds": deadline}});
    let mut generations = BTreeMap::new();
    for mark in &node.idle {
        let pod = node.patch(*mark, &patch)?;
        let generation = pod
            .pointer("/metadata/generation")
            .and_then(serde_json::Value::as_i64)
            .context("a pod without a generation")?;
        generations.insert(template::name(*mark), generation);
    }
    let began = Instant::now();
    node.testbed.restart(Part::Kubelet)?;
    let known = node.watched.until(&generations.keys().map(String::as_str), |pod, seen| {
        generations.get(pod).and_then(|generation| seen.observed(*generation))
    })?;
    Ok(known.saturating_duration_since(began))
}
