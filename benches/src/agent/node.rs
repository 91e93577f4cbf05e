//! One node: a testbed with an agent in the kubelet's role, and what was measured of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use testbed::{Containerd, NodeAgent, Options, Part, Parts, Testbed, own};

use crate::measure::Side;

use super::api::{Api, Watched, collection, object};
use super::goals::Row;
use super::template::{self, Prepared, Shape};

/// What is in the kubelet's role, and on which runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Kubelet,
    AgentOnContainerd,
    AgentAlone,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Kubelet, Self::AgentOnContainerd, Self::AgentAlone];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet on containerd",
            Self::AgentOnContainerd => "agent on containerd",
            Self::AgentAlone => "agent with built-in runtime",
        }
    }

    fn options(self) -> Options {
        // The built-in runtime's pods get addresses that the controller manager assigns to the node.
        let parts = Parts::of(&[Part::ControllerManager, Part::Kubelet]);
        let (containerd, node_agent) = match self {
            Self::Kubelet => (Containerd::Pinned, NodeAgent::Kubelet),
            Self::AgentOnContainerd => (Containerd::Pinned, NodeAgent::Wardlet),
            Self::AgentAlone => (Containerd::Wardlet, NodeAgent::Wardlet),
        };
        Options { containerd, node_agent, ..Options::from(parts) }
    }
}

/// The samples of one node.
pub(super) struct Results {
    pub(super) kind: Kind,
    pub(super) rows: BTreeMap<Row, Side>,
}

/// Released blocks of host IDs rest for a minute.
const REST: Duration = Duration::from_secs(300);
/// So many lines of a log are shown when a measurement breaks off.
const LAST_LINES: usize = 200;

/// A node that is up. It ends with this value.
pub(super) struct Node {
    pub(super) testbed: Testbed,
    pub(super) watched: Arc<Watched>,
    pub(super) results: Results,
    /// The marks of pods that stay.
    pub(super) idle: Vec<u32>,
    api: Api,
}

impl Node {
    pub(super) fn start(kind: Kind) -> anyhow::Result<Self> {
        let testbed = Testbed::start(kind.options()).with_context(|| kind.name())?;
        let api = Api::new(&testbed)?;
        for Prepared { path, object } in template::prepared() {
            api.post(&testbed, &path, &object)?;
        }
        let watched = api.watch(&testbed);
        let results = Results { kind, rows: BTreeMap::new() };
        Ok(Self { testbed, watched, results, idle: Vec::new(), api })
    }

    /// The ends of the logs of its agent and its runtime, to stderr.
    pub(super) fn print_log(&self) {
        for part in ["kubelet", "containerd"] {
            let text = std::fs::read_to_string(self.testbed.record().places.log(part)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
            eprintln!("{part} of {}:\n{}", self.results.kind.name(), last.join("\n"));
        }
    }

    pub(super) fn into_results(self) -> Results {
        self.results
    }

    /// The samples of a row.
    pub(super) fn side(&mut self, row: Row) -> &mut Side {
        self.results.rows.entry(row).or_default()
    }

    pub(super) fn post(&self, shape: Shape, mark: u32) -> anyhow::Result<()> {
        self.api.post(&self.testbed, &collection("pods"), &template::pod(shape, mark))
    }

    pub(super) fn delete(&self, mark: u32) -> anyhow::Result<()> {
        self.api.delete(&self.testbed, &object("pods", &template::name(mark)))
    }

    pub(super) fn patch(&self, mark: u32, patch: &Value) -> anyhow::Result<Value> {
        self.api.patch(&self.testbed, &object("pods", &template::name(mark)), patch)
    }

    /// All pods, as the API server has them now.
    pub(super) fn pods(&self) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.api.get(&self.testbed, &collection("pods"))?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// The API server's own metrics.
    pub(super) fn metrics(&self) -> anyhow::Result<String> {
        self.api.get(&self.testbed, "/metrics")
    }

    /// Waits until every block of host IDs is free, those of pods that are gone included.
    pub(super) fn until_blocks_are_free(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.ids("gc")?;
            let list = self.ids("list")?;
            match list.as_array().map(Vec::len) {
                Some(0) => return Ok(()),
                _ if began.elapsed() > REST => {
                    bail!("blocks of host IDs are not free within {REST:?}: {list}")
                }
                _ => std::thread::sleep(Duration::from_secs(2)),
            }
        }
    }

    /// What `wardlet ids` prints on this node.
    fn ids(&self, verb: &str) -> anyhow::Result<Value> {
        let state = self.testbed.record().places.data.join("wardlet");
        let mut command = self.testbed.command(own::program("wardlet")?);
        command.arg("--state-dir").arg(state).args(["ids", verb, "-o", "json"]);
        let output = command.output().context("wardlet ids")?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("wardlet ids {verb}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(super) fn supervisor(&self) -> anyhow::Result<u32> {
        let supervisor = self.testbed.supervisor().context("a testbed without a supervisor")?;
        Ok(u32::try_from(supervisor.pid)?)
    }

    /// The process in the kubelet's role.
    pub(super) fn agent(&self) -> anyhow::Result<u32> {
        let mut daemons = self.testbed.record().daemons.iter();
        let agent = daemons.find(|daemon| daemon.part == Part::Kubelet).context("a node without an agent")?;
        Ok(u32::try_from(agent.process.pid)?)
    }
}
