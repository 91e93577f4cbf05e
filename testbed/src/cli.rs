//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use testbed::{Containerd, Handler, NodeAgent, Part};

use crate::node::Node;

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
    ShowUserns(Node),
    /// Upstream's end-to-end specs of user namespaces on a real kubelet and runtime.
    E2eUserns(Node),
    /// Upstream's end-to-end specs on a whole node: a suite, what became of each spec, and the comparison with a kubelet.
    E2e(E2e),
    /// Blocks of the suite `node` of `testbed e2e`.
    E2eBlocks(E2eBlocks),
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

/// A suite of upstream's specs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum SuiteName {
    /// `NodeConformance` in test/e2e/common, without Serial, Flaky and Disruptive.
    #[default]
    Node,
    /// `Conformance` of sig-node.
    Conformance,
    /// What `node` leaves out because it must run alone.
    Serial,
    /// Lifecycle, mirror pods, cgroups and garbage collection in test/e2e_node.
    #[value(alias = "e2e-node")]
    Host,
    /// Any spec of e2e.test, by --focus.
    Any,
}

const E2E_HELP: &str = "\
A kubelet on containerd is the measure: run it first. Its results are kept, and
those of other nodes are compared with them. A spec that passes on the kubelet
only is named, and the command fails, unless it is an exception with a cause
(testbed/src/conformance/suites.rs). If the kubelet passes less than 90 % of the
suite, the comparison does not count.

Examples:
  testbed e2e                             `node`, a kubelet on containerd
  testbed e2e --agent wardlet             `wardlet agent` on containerd
  testbed e2e --agent wardlet --containerd wardlet
                                          `wardlet agent`, built-in runtime
  testbed e2e conformance --keep /tmp/e2e another suite, with its logs
  testbed e2e --agent wardlet --focus 'Container Runtime'
                                          some specs of `node`
  testbed e2e any --focus UserNamespaces  any spec of e2e.test
  testbed e2e host --list                 the specs of a suite, not run
  testbed e2e --compare node-containerd.json node-wardlet-agent.json";

#[derive(Debug, clap::Args)]
#[command(after_help = E2E_HELP)]
pub(crate) struct E2e {
    /// Which specs.
    #[arg(value_enum, default_value_t)]
    pub(crate) suite: SuiteName,
    /// Only specs whose names match this regular expression.
    #[arg(long, value_name = "REGEX", required_if_eq("suite", "any"))]
    pub(crate) focus: Option<String>,
    /// But none whose names match this one.
    #[arg(long, value_name = "REGEX")]
    pub(crate) skip: Option<String>,
    #[command(flatten)]
    pub(crate) node: Node,
    /// So many processes run specs at the same time.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) parallel: u8,
    /// Keep the results in this directory, and the logs of the specs with them [default: results only, below the cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Run nothing: name the specs.
    #[arg(long)]
    pub(crate) list: bool,
    /// Run nothing: compare two files of results.
    #[arg(
        long,
        num_args = 2,
        value_names = ["KUBELET", "OURS"],
        conflicts_with_all = ["suite", "focus", "skip", "containerd", "agent", "parallel", "keep", "list"],
    )]
    pub(crate) compare: Vec<PathBuf>,
}

const BLOCKS_HELP: &str = "\
Examples:
  testbed e2e-blocks probes volumes --agent wardlet
  testbed e2e-blocks network --agent wardlet --containerd wardlet --keep /tmp/e2e";

#[derive(Debug, clap::Args)]
#[command(after_help = BLOCKS_HELP)]
pub(crate) struct E2eBlocks {
    /// pods, environment, containers, ephemeral, probes, security, resize, volumes, network, node; all if none is named.
    pub(crate) blocks: Vec<String>,
    #[command(flatten)]
    pub(crate) node: Node,
    /// So many processes run specs at the same time.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) parallel: u8,
    /// Keep the results in this directory, and the logs of the specs with them [default: results only, below the cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e2e(words: &[&str]) -> Result<E2e, clap::Error> {
        let cli = Cli::try_parse_from([&["testbed", "e2e"], words].concat())?;
        match cli.command {
            Verb::E2e(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_suite_is_node_unless_another_is_named() {
        assert_eq!(e2e(&[]).expect("all defaults").suite, SuiteName::Node);
        assert_eq!(e2e(&["conformance"]).expect("known").suite, SuiteName::Conformance);
        assert_eq!(e2e(&["e2e-node"]).expect("an alias").suite, SuiteName::Host);
    }

    #[test]
    fn any_spec_is_asked_for_by_name() {
        assert!(e2e(&["any"]).expect_err("which").to_string().contains("--focus"));
        assert_eq!(e2e(&["any", "--focus", "x"]).expect("named").focus.as_deref(), Some("x"));
    }

    #[test]
    fn a_comparison_takes_two_files_and_runs_nothing() {
        assert_eq!(e2e(&["--compare", "a", "b"]).expect("two files").compare.len(), 2);
        assert!(e2e(&["--compare", "a"]).is_err());
        assert!(e2e(&["--compare", "a", "b", "--agent", "wardlet"]).is_err());
    }
}
