//! Blocks of upstream's end-to-end specs for a node: which specs each has, which are skipped and why, and how they are run.
//!
//! All specs have upstream's label NodeConformance. They run on one node, the groups of a block at the same time: most of them
//! wait for a probe or a back-off.

use std::path::Path;

use crate::yardstick::{Selection, Specs};
use crate::{Error, Result, Testbed, yardstick};

/// One block.
#[derive(Debug)]
pub struct Block {
    /// Its name on the command line and in the results.
    pub name: &'static str,
    /// What the table of results calls it.
    pub title: &'static str,
    /// Groups of specs, each a regular expression for ginkgo's `--focus`. No spec is in two of them. A label can stand
    /// between the group of interest and the description.
    groups: &'static [&'static str],
}

/// A node that the blocks are run on: its name in the results, and what the table calls it.
pub const NODES: [(&str, &str); 3] = [
    ("containerd", "a kubelet on containerd"),
    ("containerd agent", "`wardlet agent` on containerd"),
    ("wardlet agent", "`wardlet agent` on the built-in runtime"),
];

/// All blocks.
pub const BLOCKS: [Block; 6] = [
    Block {
        name: "pods",
        title: "run a pod, its command, logs, exit status and deletion",
        groups: &[
            r"\[sig-node\] (Containers|Kubelet( with pods in a privileged namespace)?|Container Runtime) ",
            r"\[sig-node\] Pods should (get|be|allow|support|cap) ",
            r"\[sig-node\] Pods should have ",
        ],
    },
    Block {
        name: "environment",
        title: "environment and downward API",
        groups: &[
            r"\[sig-node\] (ConfigMap|Secrets|Variable Expansion|Downward API) ",
            r"\[sig-node\] Pods should contain environment variables for services",
        ],
    },
    Block {
        name: "containers",
        title: "init containers, sidecars, hooks and restart rules",
        groups: &[
            r"\[sig-node\] (InitContainer|Pod Extended \(.*\)) ",
            r"\[sig-node\].* Container Lifecycle Hook ",
            r"\[sig-node\] Lifecycle (Sleep Hook|sleep action) ",
        ],
    },
    Block {
        name: "probes",
        title: "probes of containers and of sidecars",
        // Those that are not restarted are observed for four minutes each.
        groups: &[
            r"\[sig-node\] Probing container should \*not\* be restarted .*(exec|GRPC|tcp)",
            r"\[sig-node\] Probing container should \*not\* be restarted .*(http|startup)",
            r"\[sig-node\] Probing container (with readiness|should (be|have|mark|not|override)) ",
            r"\[sig-node\].* Probing restartable init container should \*not\* be restarted .*(exec|GRPC|tcp)",
            r"\[sig-node\].* Probing restartable init container should \*not\* be restarted .*(http|startup)",
            r"\[sig-node\].* Probing restartable init container (with readiness|should (be|have|mark|not|override)) ",
        ],
    },
    Block {
        name: "volumes",
        title: "volumes",
        // Those that fail are observed for five minutes each.
        groups: &[
            r"\[sig-storage\] (EmptyDir volumes|HostPath|Projected combined) ",
            r"\[sig-storage\] (ConfigMap|Secrets|Downward API volume) [^S]",
            r"\[sig-storage\] Projected (configMap|secret|downwardAPI) [^S]",
            r"\[sig-storage\] ConfigMap Should fail ",
            r"\[sig-storage\] Secrets Should fail ",
            r"\[sig-storage\] Projected configMap Should fail ",
            r"\[sig-storage\] Projected secret Should fail ",
        ],
    },
    Block { name: "node", title: "the node object", groups: &[r"\[sig-node\] NodeLease "] },
];

/// Regular expressions for the names of specs that are skipped on every node, and why.
pub const SKIPS: [(&str, &str); 5] = [
    ("should cap back-off at MaxContainerBackOff", "it takes 27 minutes"),
    ("should be able to pull image", "it pulls from upstream's registry, which the testbed does not reach"),
    ("RestartAllContainers", "`wardlet agent` does not have this action, and does not declare the feature"),
    ("should support remote command execution over websockets", "it needs exec"),
    ("should support memory backed volumes of specified size", "it needs exec"),
];

/// Upstream's label of all specs.
const LABEL: &str = "NodeConformance";

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
}

/// Runs a block on a node that is up. Copies of the logs are kept in `keep`.
///
/// # Errors
/// If the specs are not installed, or one group says nothing that can be counted.
pub fn run(testbed: &Testbed, block: &Block, keep: Option<&Path>) -> Result<Specs> {
    let skip = skipped();
    let logs: Vec<String> =
        (1..=block.groups.len()).map(|number| format!("e2e-{}-{number}", block.name)).collect();
    let groups: Vec<Selection<'_>> = block
        .groups
        .iter()
        .zip(&logs)
        .map(|(focus, log)| Selection { log, focus, skip: &skip, labels: LABEL, minutes: 60 })
        .collect();
    let outcomes: Vec<Result<Specs>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            groups.iter().map(|group| scope.spawn(|| yardstick::e2e(testbed, group))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    if let Some(dir) = keep {
        logs.iter().try_for_each(|log| copy(testbed, log, dir))?;
    }
    outcomes.into_iter().try_fold(Specs::default(), |all, specs| Ok(all.and(specs?)))
}

fn copy(testbed: &Testbed, log: &str, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let from = testbed.record().places.log(log);
    std::fs::copy(&from, dir.join(format!("{log}.log"))).map(drop).map_err(Error::file("copy", from))
}

fn skipped() -> String {
    SKIPS.map(|(name, _)| name).join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_left_out_reaches_ginkgo_and_has_a_reason() {
        assert!(SKIPS.iter().all(|(name, reason)| skipped().contains(name) && !reason.is_empty()));
    }

    #[test]
    fn blocks_are_chosen_by_name_and_a_misspelt_one_is_refused() {
        let chosen = select(&["probes".to_owned()]).expect("known");
        assert_eq!(chosen.iter().map(|block| block.name).collect::<Vec<_>>(), ["probes"]);
        assert_eq!(select(&[]).expect("all").len(), BLOCKS.len());
        assert!(select(&["probs".to_owned()]).expect_err("no such block").to_string().contains("probes"));
    }
}
