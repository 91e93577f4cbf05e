//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use testbed::{Containerd, Handler, NodeAgent, Part};

/// Real Kubernetes and real runtimes in private namespaces, for tests.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Installs components into the cache: a set (test, node, conformance, peers, all) or single ones.
    Install {
        /// Sets and components.
        #[arg(default_value = "test", value_name = "SET|COMPONENT")]
        names: Vec<String>,
    },
    /// Starts a testbed and waits until it is ready.
    Up(Up),
    /// Ends a testbed and makes sure that nothing of it is left.
    Down {
        /// Which.
        #[arg(default_value = "default")]
        name: String,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
    /// Lists testbeds, after cleaning up what crashed ones left.
    Status,
    /// Runs a command inside, with the components on PATH and KUBECONFIG set.
    Exec {
        /// In which.
        name: String,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Prints the log of a part.
    Logs {
        /// Of which testbed.
        name: String,
        /// Of which part or daemon.
        part: String,
    },
    /// A pod with `hostUsers: false` on a real kubelet and runtime: prints its uid_map.
    ShowUserns {
        /// Which runtime.
        #[arg(long, value_enum, default_value_t)]
        containerd: Containerd,
        /// What is in the kubelet's role.
        #[arg(long, value_enum, default_value_t)]
        agent: NodeAgent,
    },
    /// Upstream's end-to-end specs of user namespaces on a real kubelet and runtime.
    E2eUserns {
        /// Which runtime.
        #[arg(long, value_enum, default_value_t)]
        containerd: Containerd,
        /// What is in the kubelet's role.
        #[arg(long, value_enum, default_value_t)]
        agent: NodeAgent,
    },
    /// Other end-to-end specs of upstream on a whole node.
    E2e {
        /// Only specs that match this.
        #[arg(long)]
        focus: String,
        /// But none that match this.
        #[arg(long, default_value = "")]
        skip: String,
        /// Which runtime.
        #[arg(long, value_enum, default_value_t)]
        containerd: Containerd,
        /// What is in the kubelet's role.
        #[arg(long, value_enum, default_value_t)]
        agent: NodeAgent,
    },
    /// Blocks of upstream's end-to-end specs that need neither exec nor upstream's own images, on a whole node. Each failed
    /// spec is named.
    E2eBlocks {
        /// pods, environment, containers, probes, volumes, node; all if none is named.
        blocks: Vec<String>,
        /// Which runtime.
        #[arg(long, value_enum, default_value_t)]
        containerd: Containerd,
        /// What is in the kubelet's role.
        #[arg(long, value_enum, default_value_t)]
        agent: NodeAgent,
        /// Keep the logs of the specs in this directory.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// critest on a runtime, if critest is at hand; exit status 2 if not.
    Critest {
        /// Which runtime.
        #[arg(long, value_enum, default_value_t)]
        containerd: Containerd,
        /// Only specs that match this.
        #[arg(long, default_value = "")]
        focus: String,
    },
    /// CRI requests of a real kubelet and of wardlet for the same pods, field by field; exit status 1 if a difference is not
    /// in docs/reference/kubelet-differences.md.
    CompareCri {
        /// `wardlet agent` in the kubelet's place, too.
        #[arg(long)]
        agent: bool,
        /// Only some pods, in about a minute.
        #[arg(long)]
        short: bool,
        /// Keep what was recorded in this directory.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        /// Run nothing: compare what was kept in this directory.
        #[arg(long, value_name = "DIR", conflicts_with = "keep")]
        from: Option<PathBuf>,
    },
    /// Writes commit, date and the results that were recorded (WARDLET_CONFORMANCE) into a document.
    ConformanceReport {
        /// The file of the results.
        results: PathBuf,
        /// The document, with a place for the table.
        document: PathBuf,
    },
    #[command(hide = true)]
    InternalKeep { name: String },
    #[command(hide = true)]
    InternalEnter { name: String },
    #[command(hide = true)]
    InternalSupervise { name: String },
    #[command(hide = true)]
    InternalTokens { name: String },
    #[command(hide = true)]
    InternalFaults { name: String },
    #[command(hide = true)]
    InternalRecord { name: String },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// etcd, apiserver, controller-manager, scheduler, registry, containerd, recorder, kubelet; what they need comes
    /// along. Without any: a whole node.
    pub(crate) parts: Vec<Part>,
    /// Its name.
    #[arg(long, default_value = "default")]
    pub(crate) name: String,
    /// Where its data goes.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Which containerd.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) containerd: Containerd,
    /// What is in the kubelet's role.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) agent: NodeAgent,
    /// A runtime handler of containerd: the shim is runc or runsc, the binary what it calls as the OCI runtime.
    #[arg(long = "handler", value_name = "NAME=SHIM:BINARY")]
    pub(crate) handlers: Vec<Handler>,
}
