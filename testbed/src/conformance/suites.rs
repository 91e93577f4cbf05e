//! Suites: selections of upstream's end-to-end specs, which of them are left out and why, and which are known to pass on a
//! kubelet only.

use std::path::PathBuf;

use crate::{Result, cache, catalogue};

/// A test binary of upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `e2e.test`: specs that any cluster can run.
    E2e,
    /// `e2e_node.test`: specs that run on the node itself.
    E2eNode,
}

impl Binary {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::E2e => ("e2e", "e2e.test"),
            Self::E2eNode => ("e2e-node", "e2e_node.test"),
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn path(self) -> Result<PathBuf> {
        let (component, program) = self.names();
        cache::program(component, program)
    }

    /// The program and its pinned version: results of two versions cannot be compared.
    ///
    /// # Errors
    /// If the component is not in the catalogue.
    pub fn version(self) -> Result<String> {
        let (component, program) = self.names();
        Ok(format!("{program} {}", catalogue::component(component)?.version))
    }
}

/// One suite.
#[derive(Debug)]
pub struct Suite {
    /// Its name on the command line and in the results.
    pub name: &'static str,
    /// What the table of results calls it.
    pub title: &'static str,
    /// Which binary has its specs.
    pub binary: Binary,
    /// Only specs with these labels, in ginkgo's language; whatever their labels if it is empty.
    pub labels: &'static str,
    /// Only specs whose source file has one of these in its path; of all files if there is none.
    pub files: &'static [&'static str],
    /// Parts of the names of specs that are not run on any node, and why.
    pub left_out: &'static [(&'static str, &'static str)],
    /// Whether the node has a registry, from which it pulls the stand-ins that few specs ask for. It takes the port of the
    /// registry that the specs of private registries run.
    pub registry: bool,
}

/// Specs that are not run on any node, by parts of their names, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("should cap back-off at MaxContainerBackOff", "it takes 27 minutes"),
    ("should be able to pull image", "it pulls from upstream's registry, which the testbed does not reach"),
    (
        "when A node running restartable init containers reboots",
        "it restarts the kubelet by `systemctl`, and no systemd runs in a testbed",
    ),
    (
        "MirrorPod when kubelet restarts",
        "it restarts the kubelet by `systemctl`, and no systemd runs in a testbed",
    ),
    ("[sig-node] StaticPod", "it restarts the kubelet by `systemctl`, and no systemd runs in a testbed"),
    (
        "[sig-node] ImageGarbageCollect",
        "it restarts the kubelet by `systemctl`, and no systemd runs in a testbed",
    ),
    ("due to volume failing to unmount", "it needs upstream's image of an NFS server"),
];

/// The specs of a node that any cluster can run.
pub const NODE: Suite = Suite {
    name: "node",
    title: "all of `NodeConformance` in test/e2e/common",
    binary: Binary::E2e,
    labels: "NodeConformance && !Serial && !Flaky && !Disruptive",
    files: &["/test/e2e/common/"],
    left_out: LEFT_OUT,
    registry: true,
};

/// The node's part of what every cluster must pass.
pub const CONFORMANCE: Suite = Suite {
    name: "conformance",
    title: "`Conformance` of sig-node",
    binary: Binary::E2e,
    labels: "Conformance && sig-node",
    files: &[],
    left_out: LEFT_OUT,
    registry: true,
};

/// What the first suite leaves out because it must run alone.
pub const SERIAL: Suite = Suite {
    name: "serial",
    title: "`NodeConformance` in test/e2e/common that runs alone (`Serial`)",
    binary: Binary::E2e,
    labels: "NodeConformance && Serial && !Flaky && !Disruptive",
    files: &["/test/e2e/common/"],
    left_out: LEFT_OUT,
    registry: false,
};

/// Blocks of upstream's specs that run on the node.
pub const HOST: Suite = Suite {
    name: "host",
    title: "lifecycle, mirror pods, cgroups and garbage collection in test/e2e_node",
    binary: Binary::E2eNode,
    labels: "NodeConformance && !Flaky && !Disruptive",
    files: &[
        "/test/e2e_node/container_lifecycle_",
        "/test/e2e_node/mirror_pod_",
        "/test/e2e_node/static_pod_",
        "/test/e2e_node/pods_container_manager_",
        "/test/e2e_node/garbage_collector_",
        "/test/e2e_node/image_gc_",
    ],
    left_out: LEFT_OUT,
    registry: false,
};

/// Whatever spec is asked for by name. It is in no table.
pub const ANY: Suite = Suite {
    name: "any",
    title: "specs",
    binary: Binary::E2e,
    labels: "",
    files: &[],
    left_out: &[],
    registry: false,
};

/// Those of the table, in its order.
pub const SUITES: [&Suite; 4] = [&NODE, &CONFORMANCE, &SERIAL, &HOST];

/// A spec that passes on a kubelet and is known not to pass on `wardlet agent`.
#[derive(Debug)]
pub struct Exception {
    /// A part of the names of the specs.
    pub spec: &'static str,
    /// The nodes on which it does not pass, by their names in the results.
    pub nodes: &'static [&'static str],
    /// Why not.
    pub cause: &'static str,
}

/// All of them. One whose specs pass is reported, so that the list stays true.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        spec: "RestartAllContainers",
        nodes: &["containerd agent", "wardlet agent"],
        cause: "`wardlet agent` does not have this action, and does not declare the feature",
    },
    Exception {
        spec: "[sig-node] GarbageCollect",
        nodes: &["wardlet agent"],
        cause: "it lists the containers by CRI, and the runtime in the agent has no CRI endpoint",
    },
];

impl Suite {
    /// Under which name its result on a node is recorded.
    #[must_use]
    pub fn record(&self, node: &str) -> String {
        format!("e2e {} {node}", self.name)
    }

    /// Whether specs of this source file belong to it.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        self.files.is_empty() || self.files.iter().any(|part| path.contains(part))
    }

    /// Why a spec of this name is left out, if it is.
    #[must_use]
    pub fn why_left_out(&self, name: &str) -> Option<&'static str> {
        self.left_out.iter().find(|(part, _)| name.contains(part)).map(|(_, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_belongs_to_a_suite_by_its_file() {
        let common = "k8s.io/kubernetes@v1.37.1/test/e2e/common/node/pods.go";
        let apps = "k8s.io/kubernetes@v1.37.1/test/e2e/apps/job.go";
        assert!(NODE.has_file(common) && !NODE.has_file(apps));
        assert!(CONFORMANCE.has_file(apps) && ANY.has_file(apps));
        let on_the_node = "k8s.io/kubernetes@v1.37.1/test/e2e_node/mirror_pod_grace_period_test.go";
        assert!(HOST.has_file(on_the_node) && !HOST.has_file(common) && !NODE.has_file(on_the_node));
    }

    #[test]
    fn what_is_left_out_has_a_reason_and_what_is_asked_for_by_name_is_not_left_out() {
        assert!(LEFT_OUT.iter().all(|(part, why)| !part.is_empty() && !why.is_empty()));
        let name = "[sig-node] Pods should cap back-off at MaxContainerBackOff [NodeConformance] [Slow]";
        assert_eq!(NODE.why_left_out(name), Some("it takes 27 minutes"));
        assert_eq!(ANY.why_left_out(name), None);
        let exec =
            "[sig-node] Pods should support remote command execution over websockets [NodeConformance]";
        assert_eq!(NODE.why_left_out(exec), None);
    }

    #[test]
    fn exceptions_name_nodes_of_the_agent_only() {
        let known = super::super::NODES.map(|(name, _)| name);
        for Exception { nodes, cause, .. } in EXCEPTIONS {
            assert!(nodes.iter().all(|node| known.contains(node) && node.ends_with(" agent")), "{nodes:?}");
            assert!(!cause.is_empty());
        }
    }
}
