//! The unified hierarchy and version 1 as trees of plain files, for hosts that have the other: what is
//! written where. How the kernel takes it is tested on the kernel.

use std::fs;
use std::path::PathBuf;

use crate::counters::{CounterSet, Counters, Memory};
use crate::error::Error;
use crate::find::Hierarchies;
use crate::group::Group;
use crate::resources::Resources;

struct Tree(tempfile::TempDir);

impl Tree {
    fn unified() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.put("cgroup.controllers", "cpuset cpu memory pids hugetlb\n");
        tree.put("cgroup.subtree_control", "cpu\n");
        tree
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The group `/g` of the unified hierarchy, with these files.
    fn group(&self, files: &[&str]) -> Group {
        files.iter().for_each(|name| self.put(&format!("g/{name}"), ""));
        Group::open(&Hierarchies::pretended(self.0.path()), "/g").unwrap()
    }
}

#[test]
fn controllers_are_handed_down_to_a_group_that_is_made() {
    let tree = Tree::unified();
    tree.put("a/cgroup.controllers", "memory pids");
    tree.put("a/cgroup.subtree_control", "");
    Group::open(&Hierarchies::pretended(tree.0.path()), "/a/b").unwrap().make().unwrap();
    assert!(tree.path("a/b").is_dir());
    // A plain file keeps the last of what the kernel would have added up.
    assert_eq!(tree.read("cgroup.subtree_control"), "+hugetlb");
    assert_eq!(tree.read("a/cgroup.subtree_control"), "+pids");
}

#[test]
fn limits_are_written_as_the_unified_hierarchy_reads_them() {
    let tree = Tree::unified();
    let files = [
        "cpu.weight",
        "cpuset.cpus",
        "cpuset.mems",
        "memory.max",
        "memory.swap.max",
        "pids.max",
        "hugetlb.2MB.max",
        "hugetlb.2MB.rsvd.max",
        "memory.high",
    ];
    let group = tree.group(&files);
    tree.put("g/cpu.max", "max 100000\n");
    let limits = Resources {
        cpu_shares: Some(1024),
        cpu_quota: Some(20_000),
        cpu_period: None,
        cpuset_cpus: Some("0-1".into()),
        cpuset_mems: Some(String::new()),
        memory: Some(100),
        memory_swap: Some(150),
        pids: Some(-1),
        hugepages: [("2MB".to_owned(), 4096)].into(),
        unified: [("memory.high".to_owned(), "90".to_owned())].into(),
    };
    group.apply(&limits).unwrap();
    let expected = [
        ("cpu.weight", "100"),
        ("cpu.max", "20000 100000"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", ""),
        ("memory.max", "100"),
        ("memory.swap.max", "50"),
        ("pids.max", "max"),
        ("hugetlb.2MB.max", "4096"),
        ("hugetlb.2MB.rsvd.max", "4096"),
        ("memory.high", "90"),
    ];
    for (name, value) in expected {
        assert_eq!(tree.read(&format!("g/{name}")), value, "{name}");
    }
    group.apply(&Resources { cpu_quota: Some(-1), cpu_period: Some(5000), ..Resources::default() }).unwrap();
    assert_eq!(tree.read("g/cpu.max"), "max 5000");
}

#[test]
fn swap_is_what_is_left_beyond_memory_and_never_guessed() {
    let tree = Tree::unified();
    let group = tree.group(&["memory.max", "memory.swap.max"]);
    let set = |memory, memory_swap| group.apply(&Resources { memory, memory_swap, ..Resources::default() });
    set(Some(100), Some(-1)).unwrap();
    assert_eq!(tree.read("g/memory.swap.max"), "max");
    set(Some(100), Some(100)).unwrap();
    assert_eq!(tree.read("g/memory.swap.max"), "0");
    assert!(matches!(set(Some(100), Some(50)), Err(Error::WriteFile { .. })));
    assert!(matches!(set(None, Some(50)), Err(Error::WriteFile { .. })));
    fs::remove_file(tree.path("g/memory.swap.max")).unwrap();
    set(Some(100), Some(100)).unwrap();
    assert!(set(Some(100), Some(200)).is_err());
}

#[test]
fn numbers_are_read_from_the_unified_hierarchy() {
    let tree = Tree::unified();
    let group = tree.group(&[]);
    tree.put("g/cpu.stat", "usage_usec 1234\nuser_usec 1\n");
    tree.put("g/memory.current", "1000\n");
    tree.put("g/memory.max", "4000\n");
    tree.put("g/memory.swap.current", "7\n");
    tree.put("g/memory.stat", "anon 300\nfile 1\ninactive_file 200\npgfault 11\npgmajfault 2\n");
    tree.put("g/memory.events", "low 0\noom 5\noom_kill 3\noom_group_kill 0\n");
    tree.put("g/pids.current", "6\n");
    let memory = Memory {
        usage: Some(1000),
        limit: Some(4000),
        rss: Some(300),
        cache: Some(1),
        inactive_file: Some(200),
        swap: Some(7),
        faults: Some(11),
        major_faults: Some(2),
        oom_kills: Some(3),
        ..Memory::default()
    };
    let found = Counters::read(&group);
    assert_eq!((found.cpu, found.cpu_user, found.tasks), (Some(1_234_000), Some(1000), Some(6)));
    assert_eq!(found.memory, memory);
    assert_eq!((memory.working_set(), memory.available()), (Some(800), Some(3200)));
    tree.put("g/memory.max", "max\n");
    assert_eq!(Counters::read(&group).memory.available(), None);
}

/// `/metrics/resource` had no swap: the files were not among those that it reads.
#[test]
fn cpu_and_memory_come_with_swap_and_without_what_costs_more() {
    let tree = Tree::unified();
    let group = tree.group(&[]);
    for (name, text) in [
        ("cpu.stat", "usage_usec 2\n"),
        ("memory.current", "1000\n"),
        ("memory.max", "4000\n"),
        ("memory.stat", "anon 300\ninactive_file 200\n"),
        ("memory.swap.current", "7\n"),
        ("memory.swap.max", "50\n"),
        ("memory.peak", "2000\n"),
        ("pids.current", "6\n"),
        ("io.stat", "8:0 rbytes=10\n"),
        ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
    ] {
        tree.put(&format!("g/{name}"), text);
    }
    let all = Counters::read(&group);
    let few = Counters::read_some(&group, CounterSet::CpuAndMemory);
    assert_eq!(
        (few.cpu, few.memory.working_set(), few.memory.available()),
        (Some(2000), Some(800), Some(3200))
    );
    assert_eq!((few.memory.swap, few.memory.swap_limit), (Some(7), Some(50)));
    assert_eq!((few.memory.peak, few.tasks, few.disks.len(), few.pressure.len()), (None, None, 0, 0));
    assert_eq!(
        (all.memory.peak, all.tasks, all.disks.len(), all.pressure.len()),
        (Some(2000), Some(6), 1, 1)
    );
}

#[test]
fn cpu_and_memory_of_version_1_come_with_the_limit_of_swap() {
    let tree = Tree(tempfile::tempdir().unwrap());
    for (name, text) in [
        ("memory.usage_in_bytes", "1000\n"),
        ("memory.limit_in_bytes", "4000\n"),
        ("memory.memsw.limit_in_bytes", "4100\n"),
        ("memory.stat", "total_swap 7\n"),
    ] {
        tree.put(&format!("memory/g/{name}"), text);
    }
    let group = Group::open(&Hierarchies::pretended_split(tree.0.path(), &["memory"]), "/g").unwrap();
    let few = Counters::read_some(&group, CounterSet::CpuAndMemory).memory;
    assert_eq!((few.usage, few.swap, few.swap_limit), (Some(1000), Some(7), Some(100)));
}

/// The root has no `memory.current`; what it has counts for the whole host.
#[test]
fn the_root_is_read_as_far_as_the_kernel_counts_there() {
    let tree = Tree::unified();
    tree.put("cpu.stat", "usage_usec 5\nuser_usec 3\n");
    tree.put("memory.stat", "anon 300\nfile 600\ninactive_file 200\npgfault 11\n");
    tree.put("io.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\n");
    tree.put("g/memory.current", "1000\n");
    let root = Counters::read_root(&Hierarchies::pretended(tree.0.path()));
    assert_eq!((root.cpu, root.cpu_user, root.pressure.len()), (Some(5000), Some(3000), 1));
    let memory = &root.memory;
    assert_eq!((memory.usage, memory.rss, memory.cache), (None, Some(300), Some(600)));
    assert_eq!((memory.inactive_file, memory.faults), (Some(200), Some(11)));
}

#[test]
fn a_whole_unified_group_is_killed_by_the_kernel_itself() {
    let tree = Tree::unified();
    let group = tree.group(&["cgroup.kill", "cgroup.freeze", "cgroup.procs"]);
    group.kill_all().unwrap();
    assert_eq!((tree.read("g/cgroup.kill").as_str(), tree.read("g/cgroup.freeze").as_str()), ("1", "0"));
}

#[test]
fn processors_come_from_the_group_above_on_version_one() {
    let tree = Tree(tempfile::tempdir().unwrap());
    tree.put("cpuset/cpuset.cpus", "0-3\n");
    tree.put("cpuset/cpuset.mems", "0\n");
    tree.put("cpuset/a/cpuset.cpus", "\n");
    tree.put("cpuset/a/cpuset.mems", "1\n");
    tree.put("cpuset/a/b/cpuset.cpus", "\n");
    tree.put("cpuset/a/b/cpuset.mems", "\n");
    let hierarchies = Hierarchies::pretended_split(tree.0.path(), &["cpuset"]);
    Group::open(&hierarchies, "a/b").unwrap().make().unwrap();
    let read = |name: &str| tree.read(&format!("cpuset/{name}")).trim().to_owned();
    assert_eq!([read("a/cpuset.cpus"), read("a/b/cpuset.cpus")], ["0-3", "0-3"]);
    assert_eq!([read("a/cpuset.mems"), read("a/b/cpuset.mems")], ["1", "1"]);
}

#[test]
fn a_missing_controller_is_named() {
    let tree = Tree::unified();
    tree.put("cgroup.controllers", "pids");
    let group = tree.group(&["pids.max"]);
    let error = group.apply(&Resources { memory: Some(1), ..Resources::default() }).unwrap_err();
    assert!(matches!(&error, Error::NoController { controller, .. } if controller == "memory"), "{error}");
    assert!(error.hint().is_some());
}
