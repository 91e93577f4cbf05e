//! The cgroups of a node's pods on the kernel that is here, below a cgroup of our own.

use std::fs;
use std::process::{Child, Command};

use cgroups::kube::{NodeLimits, PodCgroupOwner, cpu_weight};
use cgroups::{Error, Group, Hierarchies, KubeNames, KubePods, QosClass, Resources, Version};

const UID: &str = "5e3a4a1c-1d0b-4b8e-a7f0-6a4d0b1c2d3e";

/// A `cgroupRoot` of a name of its own; emptied and removed whatever becomes of the test.
struct Root {
    hierarchies: Hierarchies,
    path: String,
}

impl Root {
    fn new(name: &str) -> Self {
        let hierarchies = Hierarchies::find().unwrap();
        let path = format!("/wardlet-test-{}-kube-{name}", std::process::id());
        Group::open(&hierarchies, &path).unwrap().make().unwrap();
        Self { hierarchies, path }
    }

    fn tree(&self, owner: &str) -> KubePods {
        let tree = KubePods::open(KubeNames::cgroupfs(&self.path).unwrap(), owner).unwrap();
        tree.make_classes().unwrap();
        tree
    }

    fn group(&self, below: &str) -> Group {
        Group::open(&self.hierarchies, &format!("{}/kubepods{below}", self.path)).unwrap()
    }

    fn read(&self, below: &str, name: &str) -> String {
        let group = self.group(below);
        let file = group.dirs().map(|dir| dir.join(name)).find(|file| file.exists());
        fs::read_to_string(file.unwrap_or_else(|| panic!("{below} has no {name}"))).unwrap().trim().to_owned()
    }

    /// CPU shares, as the kernel of this host shows them.
    fn shares(&self, below: &str) -> String {
        self.read(below, if self.is_v2() { "cpu.weight" } else { "cpu.shares" })
    }

    fn memory(&self, below: &str) -> String {
        self.read(below, if self.is_v2() { "memory.max" } else { "memory.limit_in_bytes" })
    }

    fn is_v2(&self) -> bool {
        self.hierarchies.version() == Version::V2
    }

    fn in_shares(&self, shares: u64) -> String {
        if self.is_v2() { cpu_weight(shares).to_string() } else { shares.to_string() }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let group = Group::open(&self.hierarchies, &self.path).unwrap();
        let _ = group.kill_all();
        let _ = group.remove();
    }
}

/// Killed when it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn inside(group: &Group) -> Self {
        let sleeper = Self(Command::new("sleep").arg("1000").spawn().unwrap());
        group.make().unwrap();
        group.add(sleeper.0.id()).unwrap();
        sleeper
    }

    fn is_killed(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn classes_and_pods_are_limited_as_a_kubelet_limits_them() {
    let root = Root::new("limits");
    let tree = root.tree("us");
    let node = NodeLimits { cpu_millis: 1850, memory: 1 << 30, pids: Some(12_345), ..NodeLimits::default() };
    tree.limit_node(&node).unwrap();
    assert_eq!((root.shares(""), root.memory("")), (root.in_shares(1894), (1 << 30).to_string()));
    assert_eq!(root.read("", "pids.max"), "12345");
    assert_eq!(root.shares("/besteffort"), root.in_shares(2));
    tree.set_burstable_cpu(750).unwrap();
    assert_eq!(root.shares("/burstable"), root.in_shares(768));
    tree.set_burstable_cpu(0).unwrap();
    assert_eq!(root.shares("/burstable"), root.in_shares(2));

    let limits = Resources {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory: Some(64 << 20),
        pids: Some(100),
        hugepages: [("2MB".to_owned(), 4 << 20)].into(),
        ..Resources::default()
    };
    tree.make_pod(QosClass::Guaranteed, UID, &limits).unwrap();
    let pod = format!("/pod{UID}");
    assert_eq!((root.shares(&pod), root.memory(&pod)), (root.in_shares(512), (64 << 20).to_string()));
    assert_eq!(root.read(&pod, "pids.max"), "100");
    if root.is_v2() {
        assert_eq!(root.read(&pod, "cpu.max"), "50000 100000");
    } else {
        assert_eq!(root.read(&pod, "cpu.cfs_quota_us"), "50000");
    }
    assert!(tree.has_pod(QosClass::Guaranteed, UID) && !tree.has_pod(QosClass::Burstable, UID));
    // Made again, after a crash for instance, it has the new limits.
    tree.make_pod(QosClass::Guaranteed, UID, &Resources { pids: Some(200), ..Resources::default() }).unwrap();
    assert_eq!((root.read(&pod, "pids.max"), root.shares(&pod)), ("200".to_owned(), root.in_shares(512)));
}

#[test]
fn a_pod_cgroup_is_removed_with_all_its_processes_and_no_other_is() {
    let root = Root::new("remove");
    let tree = root.tree("us");
    for (class, uid) in [(QosClass::BestEffort, UID), (QosClass::BestEffort, "other")] {
        tree.make_pod(class, uid, &Resources::default()).unwrap();
    }
    let mut ours = Sleeper::inside(&root.group(&format!("/besteffort/pod{UID}/a/b")));
    let mut other = Sleeper::inside(&root.group("/besteffort/podother/a"));
    tree.remove_pod(UID).unwrap();
    assert!(ours.is_killed() && !other.is_killed());
    assert!(
        !root.group(&format!("/besteffort/pod{UID}")).exists() && tree.has_pod(QosClass::BestEffort, "other")
    );
    tree.remove_pod(UID).unwrap();
    tree.remove_pod("never-made").unwrap();
}

#[test]
fn pods_are_listed_with_the_instance_that_made_them() {
    let root = Root::new("owner");
    let (us, them) = (root.tree("us"), root.tree("them"));
    us.make_pod(QosClass::Guaranteed, "a", &Resources::default()).unwrap();
    them.make_pod(QosClass::Burstable, "b", &Resources::default()).unwrap();
    root.group("/besteffort/podc").make().unwrap();
    root.group("/besteffort/system").make().unwrap();
    let found: Vec<_> = us.pods().unwrap().into_iter().map(|pod| (pod.uid, pod.owner)).collect();
    use PodCgroupOwner::{Other, This, Unknown};
    assert_eq!(
        found,
        [("a", This), ("b", Other), ("c", Unknown)].map(|(uid, owner)| (uid.to_owned(), owner))
    );
    let pods = us.pods().unwrap();
    assert!(pods.iter().all(|pod| !us.has_processes(pod).unwrap()));
    let _sleeper = Sleeper::inside(&root.group("/poda/inner"));
    assert!(us.has_processes(&pods[0]).unwrap() && !us.has_processes(&pods[1]).unwrap());
}

#[test]
fn a_missing_root_is_refused() {
    let names = |root: &str| KubeNames::cgroupfs(root).unwrap();
    let missing = KubePods::open(names("/wardlet-test-no-such-cgroup"), "us");
    assert!(matches!(missing, Err(Error::NoRoot { .. })));
}

#[test]
fn the_systemd_driver_needs_systemd_and_cgroup_v2_alone() {
    if cgroups::Groups::find().unwrap().has_systemd() {
        // The slices themselves are tried in the virtual machine that has no other purpose.
        KubePods::open(KubeNames::systemd("").unwrap(), "us").unwrap();
        return;
    }
    let error = KubePods::open(KubeNames::systemd("").unwrap(), "us").unwrap_err();
    assert!(
        matches!(error, Error::NoSystemd | Error::SystemdVersion(_)) && error.hint().is_some(),
        "{error}"
    );
}
