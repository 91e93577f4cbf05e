//! What is on the node, by the kernel, the ledger and the files, and whether all of it agrees with the API server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Machine, wait};

/// The processes of pods: the cgroup, `uid_map` and `gid_map` of each.
const PROCESSES: &str = "cd /sys/fs/cgroup/kubepods && for f in $(find . -name cgroup.procs); do for p in $(cat $f); do \
    echo $f $(cat /proc/$p/uid_map) / $(cat /proc/$p/gid_map); done; done";
/// What is there of pods by their UIDs, each kind on a line.
const FILES: &str = "for d in /var/lib/kubelet/pods /var/lib/wardlet/pods; do echo $(ls $d); done; \
    echo $(ls /var/log/pods | sed 's/.*_//'); \
    echo $(cd /sys/fs/cgroup/kubepods && find . -type d -name 'pod*' | sed 's/.*pod//'); \
    echo $(sed -n 's|.* /var/lib/kubelet/pods/\\([^/]*\\)/.*|\\1|p' /proc/mounts)";
/// The kubelet's records of user namespaces, each on a line with the pod's UID.
const RECORDS: &str =
    "cd /var/lib/kubelet/pods && for d in *; do [ ! -e $d/userns ] || echo $d $(cat $d/userns); done";

/// The host IDs of pods by their UIDs: `containerId hostId length`.
pub(crate) type Blocks = BTreeMap<String, String>;

pub(crate) fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap()
}

pub(crate) fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap()
}

fn line(mapping: &Value) -> String {
    format!("{} {} {}", mapping["containerId"], mapping["hostId"], mapping["length"])
}

fn is_isolated(pod: &&Value) -> bool {
    pod["spec"]["hostUsers"] == false
}

/// The UIDs of pods that something is kept of.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) files: BTreeSet<String>,
    pub(crate) records: BTreeSet<String>,
    pub(crate) logs: BTreeSet<String>,
    pub(crate) cgroups: BTreeSet<String>,
    pub(crate) mounts: BTreeSet<String>,
}

impl Kept {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { files, records, logs, cgroups, mounts } = self;
        [files, records, logs, cgroups, mounts].iter().all(|kind| kind.is_empty())
    }
}

/// The number of boots that a pod has noted.
#[derive(Debug)]
pub(crate) struct Noted {
    /// In its volume on the disk, and in a directory of that.
    pub(crate) on_disk: [usize; 2],
    /// In its volume in memory.
    pub(crate) in_memory: usize,
}

impl Machine {
    /// What the container `main` of a pod has printed since it was restarted so often.
    #[track_caller]
    pub(crate) fn printed(&self, name: &str, uid: &str, restarts: u64) -> String {
        let log = format!("/var/log/pods/default_{name}_{uid}/main/{restarts}.log");
        self.done(&format!("sed 's/^[^ ]* [^ ]* F //' {log}"))
    }

    /// What a pod has noted in its volumes, all of it different boots.
    #[track_caller]
    pub(crate) fn noted(&self, uid: &str) -> Noted {
        let count = |volume: &str| {
            let text = self.done(&format!(
                "cat /var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{volume}/boots"
            ));
            let boots: BTreeSet<&str> = text.lines().collect();
            assert_eq!(boots.len(), text.lines().count(), "{volume}: {text}");
            boots.len()
        };
        Noted { on_disk: ["disk", "disk/part"].map(count), in_memory: count("memory") }
    }

    /// The API server was told that the node was rebooted, with the ID of this boot.
    #[track_caller]
    pub(crate) fn has_rebooted(&self, node: &str) {
        let boot = self.done("cat /proc/sys/kernel/random/boot_id");
        let message = format!("Node {node} has been rebooted, boot id: {}", boot.trim());
        wait(|| {
            let is_it = |event: &Value| event["reason"] == "Rebooted" && event["message"] == message;
            let found = self.list("namespaces/default/events").into_iter().find(is_it);
            assert!(found.as_ref().is_none_or(|event| event["type"] == "Warning"), "{found:?}");
            found.is_none().then(|| message.clone())
        });
    }

    pub(crate) fn kept(&self) -> Kept {
        let text = self.done(FILES);
        let mut lines = text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect());
        let mut next = || lines.next().unwrap();
        Kept { files: next(), records: next(), logs: next(), cgroups: next(), mounts: next() }
    }

    /// The leases that are in use, by holder.
    pub(crate) fn leases(&self) -> Blocks {
        let all = self.json("ids list");
        let leased = all.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
        let mut blocks = Blocks::new();
        for lease in leased {
            assert_eq!(lease["uidMappings"], lease["gidMappings"], "{lease}");
            let block = line(&lease["uidMappings"][0]);
            assert_eq!(blocks.insert(lease["holder"].as_str().unwrap().to_owned(), block), None, "{all:#}");
        }
        blocks
    }

    /// Kernel, ledger, records and `verify` agree on the block of each of the running pods, no two have the same, nothing
    /// else is leased, and there is nothing on the node of pods other than these and those that are `over`.
    #[track_caller]
    pub(crate) fn is_consistent(&self, running: &[Value], over: &[Value]) -> Blocks {
        let leases = self.leases();
        let isolated: BTreeSet<&str> = running.iter().filter(is_isolated).map(uid).collect();
        assert_eq!(leases.keys().map(String::as_str).collect::<BTreeSet<_>>(), isolated);
        let bases: BTreeSet<&str> = leases.values().filter_map(|block| block.split(' ').nth(1)).collect();
        assert_eq!(bases.len(), leases.len(), "two pods have one block: {leases:?}");

        let processes = self.done(PROCESSES);
        let mut seen = BTreeSet::new();
        for process in processes.lines() {
            let (cgroup, maps) = process.split_once(' ').unwrap();
            let pod = cgroup.split("/pod").nth(1).unwrap().split('/').next().unwrap();
            let block = leases.get(pod).map_or("0 0 4294967295", String::as_str);
            assert_eq!(maps, format!("{block} / {block}"), "{process}");
            seen.insert(pod);
        }
        assert_eq!(seen, running.iter().map(uid).collect());

        let records: Blocks = self.done(RECORDS).lines().map(record).collect();
        assert_eq!(records, leases);

        let report = self.json("verify");
        assert_eq!(report["holds"], true, "{report:#}");
        for pod in running.iter().filter(is_isolated) {
            let all = report["pods"].as_array().unwrap();
            let of_pod = all.iter().find(|one| one["uid"] == uid(pod));
            let verified = of_pod.unwrap_or_else(|| panic!("{} is not in {report:#}", name(pod)));
            assert_eq!(verified["verdict"], "isolated", "{report:#}");
            assert!(leases[uid(pod)].contains(&format!(" {} ", verified["block"]["hostId"])), "{report:#}");
        }
        self.have_addresses(running);
        self.has_nothing_else(running, over);
        leases
    }

    /// Each of the running pods has an address of its own, and no other is taken.
    fn have_addresses(&self, running: &[Value]) {
        let own = running.iter().filter(|pod| pod["spec"]["hostNetwork"] != true);
        let addresses: Vec<&str> = own.map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
        assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len(), "{addresses:?}");
        let taken = self.done("ls /var/lib/wardlet/runtime/network/leases");
        assert_eq!(taken.lines().count(), addresses.len(), "{taken}, not {addresses:?}");
    }

    fn has_nothing_else(&self, running: &[Value], over: &[Value]) {
        let of = |pods: &[Value]| pods.iter().map(|pod| uid(pod).to_owned()).collect::<BTreeSet<_>>();
        let (running, all) = (of(running), &of(running) | &of(over));
        let kept = self.kept();
        assert_eq!((&kept.files, &kept.records, &kept.logs), (&all, &all, &all), "{kept:#?}");
        assert_eq!(kept.cgroups, running, "{kept:#?}");
        assert!(kept.mounts.is_subset(&running), "{kept:#?}");
    }
}

/// A kubelet's record of a pod's user namespace.
fn record(text: &str) -> (String, String) {
    let (uid, json) = text.split_once(' ').unwrap();
    let record: Value = serde_json::from_str(json).unwrap();
    assert_eq!(record["uidMappings"], record["gidMappings"], "{text}");
    (uid.to_owned(), line(&record["uidMappings"][0]))
}
