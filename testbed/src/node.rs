//! The node that a verb starts: what is in the kubelet's role, on which runtime.

use anyhow::Result;
use testbed::{Containerd, NodeAgent, Options, Parts, Testbed};

// Without a comment for readers of the documentation: clap would show it as the verb's.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Node {
    /// Which runtime.
    #[arg(long, value_enum, default_value_t)]
    containerd: Containerd,
    /// What is in the kubelet's role.
    #[arg(long, value_enum, default_value_t)]
    agent: NodeAgent,
}

impl Node {
    pub(crate) fn start(self, parts: Parts) -> Result<Testbed> {
        let Self { containerd, agent } = self;
        Ok(Testbed::start(Options { containerd, node_agent: agent, ..Options::from(parts) })?)
    }

    /// Its name in the results.
    pub(crate) fn name(self) -> String {
        let agent = if self.agent == NodeAgent::Wardlet { " agent" } else { "" };
        format!("{}{agent}", runtime(self.containerd))
    }
}

/// The name of a runtime in the results. Debian's has no row in the table.
pub(crate) fn runtime(containerd: Containerd) -> &'static str {
    match containerd {
        Containerd::Pinned => "containerd",
        Containerd::Debian => "debian",
        Containerd::Wardlet => "wardlet",
    }
}
