//! Control groups on the kernel that is here, below a group of our own.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cgroups::{Counters, Eager, Error, Group, Hierarchies, Resources, Version};

/// A group of a name of its own; emptied and removed whatever becomes of the test.
struct Own {
    hierarchies: Hierarchies,
    path: String,
    group: Group,
}

impl Own {
    fn new(name: &str) -> Self {
        let hierarchies = Hierarchies::find().unwrap();
        let path = format!("/wardlet-test-{}-{name}", std::process::id());
        let group = Group::open(&hierarchies, &path).unwrap();
        group.make().unwrap();
        Self { hierarchies, path, group }
    }

    fn below(&self, name: &str) -> Group {
        let group = Group::open(&self.hierarchies, &format!("{}/{name}", self.path)).unwrap();
        group.make().unwrap();
        group
    }

    /// The file of this controller, in whichever hierarchy has it.
    fn file(&self, name: &str) -> PathBuf {
        self.group.dirs().map(|dir| dir.join(name)).find(|file| file.exists()).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap().trim().to_owned()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.group.kill_all();
        let _ = self.group.remove();
    }
}

/// A shell that waits to be put into a group before it runs `script`.
fn started(group: &Group, script: &str) -> Child {
    let child = Command::new("/bin/sh")
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    group.add(child.id()).unwrap();
    let mut child = child;
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
    child
}

#[test]
fn a_group_is_in_every_hierarchy_and_gone_from_every_one() {
    let own = Own::new("every");
    let child = own.below("one/two");
    assert!(own.group.dirs().all(std::path::Path::is_dir));
    assert!(child.dirs().all(std::path::Path::is_dir));
    own.group.make().unwrap();
    own.group.remove().unwrap();
    assert!(!own.group.exists() && !child.exists());
    own.group.remove().unwrap();
}

/// A new group of version 1 has neither processors nor memory nodes, and takes no process then.
#[test]
fn a_process_can_be_put_into_a_new_group_at_once() {
    let own = Own::new("cpuset");
    let inner = own.below("inner");
    let mut child = started(&inner, "sleep 100");
    assert!(inner.processes().unwrap().contains(&child.id()));
    assert!(own.group.processes().unwrap().contains(&child.id()));
    own.group.kill_all().unwrap();
    child.wait().unwrap();
    assert!(own.group.processes().unwrap().is_empty());
}

#[test]
fn limits_are_what_the_kernel_then_says() {
    let own = Own::new("limits");
    let limits = Resources {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        cpuset_cpus: Some("0".into()),
        memory: Some(64 << 20),
        pids: Some(17),
        ..Resources::default()
    };
    own.group.apply(&limits).unwrap();
    assert_eq!(own.read("pids.max"), "17");
    assert_eq!(own.read("cpuset.cpus"), "0");
    match own.hierarchies.version() {
        Version::V2 => {
            assert_eq!(own.read("cpu.max"), "50000 100000");
            assert_eq!(own.read("memory.max"), (64 << 20).to_string());
        }
        Version::V1 | Version::Hybrid => {
            assert_eq!(
                (own.read("cpu.shares").as_str(), own.read("cpu.cfs_quota_us").as_str()),
                ("512", "50000")
            );
            assert_eq!(own.read("memory.limit_in_bytes"), (64 << 20).to_string());
        }
    }
    own.group.apply(&Resources { pids: Some(-1), cpu_quota: Some(-1), ..Resources::default() }).unwrap();
    assert_eq!(own.read("pids.max"), "max");
}

/// Each of the two values must be possible beside the other at any moment.
#[test]
fn memory_with_swap_can_be_raised_and_lowered() {
    let own = Own::new("memory");
    for mebibytes in [64, 256, 32, 128] {
        let limit = Some(mebibytes << 20);
        own.group.apply(&Resources { memory: limit, memory_swap: limit, ..Resources::default() }).unwrap();
        if own.hierarchies.version() != Version::V2 {
            assert_eq!(own.read("memory.memsw.limit_in_bytes"), (mebibytes << 20).to_string());
        }
    }
}

#[test]
fn what_cannot_be_limited_here_is_an_error_and_not_left_out() {
    let own = Own::new("refused");
    let unified = |name: &str| Resources {
        unified: [(name.to_owned(), "1".to_owned())].into(),
        ..Resources::default()
    };
    for name in ["no.such.file", "../escape", "cgroup.procs", ""] {
        let error = own.group.apply(&unified(name)).unwrap_err();
        assert!(matches!(&error, Error::NoController { controller, .. } if controller == name), "{error}");
    }
    let pages = Resources { hugepages: [("3MB".to_owned(), 0)].into(), ..Resources::default() };
    assert!(own.group.apply(&pages).is_err());
}

/// On a hybrid host this controller is in the unified hierarchy, and has to be handed down there.
#[test]
fn huge_pages_are_limited_in_whichever_hierarchy_counts_them() {
    let own = Own::new("pages");
    let inner = own.below("inner");
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").unwrap().count();
    let limits = Resources { hugepages: [("2MB".to_owned(), 4 << 20)].into(), ..Resources::default() };
    let set = inner.apply(&limits);
    if !own.hierarchies.has("hugetlb") || sizes == 0 {
        assert!(set.is_err());
        return;
    }
    set.unwrap();
    let names = ["hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes"];
    let files = inner.dirs().flat_map(|dir| names.map(|name| dir.join(name)));
    let limits: Vec<_> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    assert_eq!(limits, [format!("{}\n", 4 << 20)]);
}

#[test]
fn the_root_and_paths_that_climb_are_refused() {
    let hierarchies = Hierarchies::find().unwrap();
    for path in ["", "/", "//", "/a/../b", "..", "a/./../.."] {
        assert!(matches!(Group::open(&hierarchies, path), Err(Error::Path { .. })), "{path:?}");
    }
}

#[test]
fn what_a_group_used_is_counted() {
    let own = Own::new("stats");
    let script = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 100; echo $x";
    let mut child = started(&own.group, script);
    let busy = || Counters::read(&own.group);
    // The kernel adds up what its processors counted from time to time.
    while busy().cpu == Some(0) || busy().memory.rss.is_none_or(|rss| rss < 4 << 20) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let stats = busy();
    let memory = &stats.memory;
    assert!(stats.tasks.unwrap() >= 1, "{stats:?}");
    assert!(memory.usage > Some(0) && memory.rss > Some(0) && memory.faults > Some(0), "{stats:?}");
    assert!(memory.working_set().unwrap() <= memory.usage.unwrap(), "{stats:?}");
    assert_eq!((memory.available(), memory.oom_kills), (None, Some(0)), "{stats:?}");
    own.group.apply(&Resources { memory: Some(512 << 20), ..Resources::default() }).unwrap();
    assert!(busy().memory.available().unwrap() <= 512 << 20);
    own.group.kill_all().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_killed_for_want_of_memory_is_counted() {
    let own = Own::new("oom");
    own.group
        .apply(&Resources { memory: Some(8 << 20), memory_swap: Some(8 << 20), ..Resources::default() })
        .unwrap();
    let mut child = started(&own.group, "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo $x");
    child.wait().unwrap();
    own.group.kill_all().unwrap();
    assert!(Counters::read(&own.group).memory.oom_kills.unwrap() >= 1);
}

/// Each of these starts others as fast as it can, and in groups below.
#[test]
fn processes_that_go_on_starting_others_are_all_gone() {
    let own = Own::new("forks");
    let (one, two) = (own.below("one"), own.below("two/deep"));
    own.group.apply(&Resources { pids: Some(60), ..Resources::default() }).unwrap();
    let script = "f() { sleep 0.01 & f & f; }; f; while :; do sleep 100 & done";
    let mut children = [started(&one, script), started(&two, script)];
    let since = Instant::now();
    while own.group.processes().unwrap().len() < 20 {
        assert!(since.elapsed() < Duration::from_secs(60), "there are never many of them");
        // A shell that cannot start another one ends, and all of them may have met the limit at once.
        for (child, group) in children.iter_mut().zip([&one, &two]) {
            if child.try_wait().unwrap().is_some() {
                *child = started(group, script);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    own.group.kill_all().unwrap();
    assert!(own.group.processes().unwrap().is_empty());
    for child in &mut children {
        child.wait().unwrap();
    }
    own.group.remove().unwrap();
    assert!(!own.group.exists());
}

#[test]
fn a_group_that_is_not_there_has_used_nothing_and_is_easily_emptied() {
    let hierarchies = Hierarchies::find().unwrap();
    let group = Group::open(&hierarchies, "/wardlet-test-that-nobody-made/x").unwrap();
    assert_eq!(Counters::read(&group), Counters::default());
    assert!(group.processes().unwrap().is_empty());
    group.kill_all().unwrap();
    group.remove().unwrap();
}

/// Its thread is gone once nobody has wanted it for a while, and comes again.
#[test]
fn a_wait_that_is_begun_early_leaves_this_process_where_it_is() {
    if !testkit::in_own_process("cgroup::a_wait_that_is_begun_early_leaves_this_process_where_it_is") {
        return;
    }
    let groups = || fs::read_to_string("/proc/self/cgroup").unwrap();
    let is_it =
        |thread: &fs::DirEntry| fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"eager\n");
    let at_work = || fs::read_dir("/proc/self/task").unwrap().flatten().filter(is_it).count();
    let until = |wanted: usize| {
        let since = Instant::now();
        while at_work() != wanted {
            assert!(since.elapsed() < Duration::from_secs(10), "there are not {wanted}");
        }
    };
    let (before, eager, hierarchies) = (groups(), Eager::default(), Hierarchies::find().unwrap());
    for _ in 0..3 {
        eager.soon(&hierarchies);
        eager.soon(&hierarchies);
        until(1);
        until(0);
        assert_eq!(groups(), before);
    }
}
