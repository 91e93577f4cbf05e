//! Blocks of the suite `node`: its specs by what a node has to do for them. Each source file is in one block.

use crate::{Error, Result};

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name on the command line and in the results.
    pub name: &'static str,
    /// What the table of results calls it.
    pub title: &'static str,
    /// Files and directories below test/e2e/common.
    files: &'static [&'static str],
}

/// All blocks.
pub const BLOCKS: [Block; 10] = [
    Block {
        name: "pods",
        title: "run a pod, its command, logs, exit status and deletion",
        files: &[
            "node/containers.go",
            "node/kubelet.go",
            "node/kubelet_etc_hosts.go",
            "node/runtime.go",
            "node/pods.go",
        ],
    },
    Block {
        name: "environment",
        title: "environment and downward API",
        files: &["node/configmap.go", "node/secrets.go", "node/expansion.go", "node/downwardapi.go"],
    },
    Block {
        name: "containers",
        title: "init containers, sidecars, hooks and restart rules",
        files: &["node/init_container.go", "node/lifecycle_hook.go", "node/container_restart_policy.go"],
    },
    Block { name: "ephemeral", title: "ephemeral containers", files: &["node/ephemeral_containers.go"] },
    Block {
        name: "probes",
        title: "probes of containers and of sidecars",
        files: &["node/container_probe.go"],
    },
    Block {
        name: "security",
        title: "security context, sysctls, host name, admission and RuntimeClass",
        files: &[
            "node/security_context.go",
            "node/privileged.go",
            "node/sysctl.go",
            "node/pod_hostnameoverride.go",
            "node/pod_admission.go",
            "node/runtimeclass.go",
        ],
    },
    Block {
        name: "resize",
        title: "resize in place",
        files: &["node/pod_resize.go", "node/pod_level_resources_resize.go"],
    },
    Block { name: "volumes", title: "volumes", files: &["storage/"] },
    Block { name: "network", title: "network between pods and nodes", files: &["network/"] },
    Block { name: "node", title: "the node object", files: &["node/node_lease.go"] },
];

/// The blocks of these names; all of them if there is no name.
///
/// # Errors
/// If one is not known.
pub fn select(names: &[String]) -> Result<Vec<&'static Block>> {
    let known = || BLOCKS.iter().map(|block| block.name).collect::<Vec<_>>().join(", ");
    let unknown = |name: &String| Error::Unknown { kind: "block", name: name.clone(), known: known() };
    if names.is_empty() {
        return Ok(BLOCKS.iter().collect());
    }
    let find = |name: &String| BLOCKS.iter().find(|block| block.name == name).ok_or_else(|| unknown(name));
    names.iter().map(find).collect()
}

impl Block {
    /// Under which name its result on a node is recorded.
    #[must_use]
    pub fn record(&self, node: &str) -> String {
        format!("block {} {node}", self.name)
    }

    /// Whether specs of this source file belong to it.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        let below = path.split_once("/test/e2e/common/").map(|(_, below)| below);
        below.is_some_and(|file| self.files.iter().any(|one| file.starts_with(one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str) -> Vec<&'static str> {
        let path = format!("k8s.io/kubernetes@v1.37.1/test/e2e/common/{file}");
        BLOCKS.iter().filter(|block| block.has_file(&path)).map(|block| block.name).collect()
    }

    #[test]
    fn a_file_is_in_one_block() {
        for file in BLOCKS.iter().flat_map(|block| block.files).filter(|file| file.ends_with(".go")) {
            assert_eq!(of(file).len(), 1, "{file}");
        }
        assert_eq!(of("storage/empty_dir.go"), ["volumes"]);
        assert_eq!(of("node/kubelet_etc_hosts.go"), ["pods"]);
        assert_eq!(of("node/something_new.go"), [] as [&str; 0]);
        assert!(!BLOCKS[0].has_file("k8s.io/kubernetes@v1.37.1/test/e2e/node/pods.go"));
    }

    #[test]
    fn blocks_are_chosen_by_name_and_a_misspelt_one_is_refused() {
        let chosen = select(&["probes".to_owned()]).expect("known");
        assert_eq!(chosen.iter().map(|block| block.name).collect::<Vec<_>>(), ["probes"]);
        assert_eq!(select(&[]).expect("all").len(), BLOCKS.len());
        assert!(select(&["probs".to_owned()]).expect_err("no such block").to_string().contains("probes"));
    }
}
