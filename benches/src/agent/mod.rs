//! `wardlet agent` against the real kubelet: nodes of the same kind of cluster, side by side, with the same pods in turns.
//!
//! Each node is a testbed of its own with its own etcd, API server and controller manager: a kubelet on containerd, the agent
//! on the same containerd and runc, and the agent on its built-in runtime. Two nodes on one containerd would stop each other's
//! pods. Pods are bound by `spec.nodeName`, so that no scheduler is measured. A pod's process is seen in /proc, all else by a
//! watch on the API server.
//!
//! - [`api`]: requests to an API server, and the watch; [`node`]: one node; [`template`]: the pods.
//! - [`usage`]: memory and CPU time of a node's processes; [`requests`]: what the API server was asked.
//! - [`rounds`]: pods one by one and in bursts; [`idle`]: many idle pods, and a restart under them; [`goals`]: the rows.
//! - [`many`]: a suite of its own, of one node with as many pods as it may have.

mod api;
mod goals;
mod idle;
pub(crate) mod many;
mod node;
mod requests;
mod rounds;
mod template;
mod usage;

use std::time::Duration;

use crate::dice::Dice;
use crate::report::{Report, say};
use crate::subject::Answer;

use self::node::{Kind, Node};

/// What the suite needs.
pub(crate) struct Agents {
    /// How often each pod is started and deleted.
    pub(crate) samples: usize,
    /// How often many pods are started at once, and how often an agent is restarted.
    pub(crate) repeats: usize,
}

impl Agents {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        say("agent: starting three nodes");
        let mut nodes = Kind::ALL.into_iter().map(Node::start).collect::<anyhow::Result<Vec<_>>>()?;
        if let Err(error) = self.measure(&mut nodes, dice) {
            // They go with the testbeds.
            nodes.iter().for_each(Node::print_log);
            return Err(error);
        }
        goals::judge(nodes.into_iter().map(Node::into_results).collect(), dice, report);
        report.notes.push(
            "agent: each node has an etcd, an API server and a controller manager of its own; start and deletion \
             are timed one pod at a time, the nodes in random order; recovery is from the restart of a killed agent \
             until the API server has each pod's status for a generation made while the agent was away"
                .to_owned(),
        );
        Ok(())
    }
}

impl Agents {
    fn measure(&self, nodes: &mut [Node], dice: &mut Dice) -> anyhow::Result<()> {
        idle::memory(nodes, 0)?;
        rounds::single(nodes, self.samples, dice)?;
        rounds::bursts(nodes, self.repeats, dice)?;
        idle::run(nodes, self.repeats, dice)
    }
}

/// The nodes in an order of this round's own.
fn in_turns<'a>(nodes: &'a mut [Node], dice: &mut Dice) -> Vec<&'a mut Node> {
    let mut turns: Vec<&mut Node> = nodes.iter_mut().collect();
    for last in (1..turns.len()).rev() {
        turns.swap(last, dice.below(last + 1));
    }
    turns
}

fn answer(took: Duration) -> Answer {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}
