//! What the kernel of this host counts, and what works on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cgroups::{Counters, Group, Hierarchies, Rates};
use container::Resources;
use cri::ContainerMetadata;
use kernel::disk_usage::{DiskUsageCache, Round};
use runtime::stats::usage::{self, Sample};
use runtime::stats::{Container, Processes, Written};
use runtime::status;

/// A control group with a process that works and then waits; both go with it.
struct Busy {
    group: Group,
    child: Child,
}

impl Busy {
    fn start() -> Self {
        let group = Group::open(
            &Hierarchies::find().unwrap(),
            &format!("/wardlet-test-stats-{}", std::process::id()),
        );
        let group = group.unwrap();
        group.make().unwrap();
        let work = "read go; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read end";
        let child =
            Command::new("sh").args(["-c", work]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let busy = Self { group, child: child.unwrap() };
        busy.group.add(busy.child.id()).unwrap();
        busy
    }

    fn work(&mut self) {
        use std::io::{BufRead, BufReader, Write};
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.group.remove();
    }
}

#[test]
fn a_working_process_is_counted() {
    let mut busy = Busy::start();
    let before = Counters::read(&busy.group);
    busy.work();
    let after = Counters::read(&busy.group);
    assert!(after.cpu.unwrap() > before.cpu.unwrap_or(0), "{before:?} {after:?}");
    assert!(after.memory.usage.unwrap() > 0 && after.memory.working_set().unwrap() > 0, "{after:?}");
    assert!(after.memory.faults.is_some() && after.memory.oom_kills == Some(0), "{after:?}");
    assert_eq!(after.tasks, Some(1));
    let processes = Processes::read(&busy.group.processes().unwrap());
    assert_eq!(processes.count, 1);
    assert!(processes.files >= 3, "{processes:?}");

    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(dir.path().join("file"), vec![1; 10_000]).unwrap();
    let of = Container {
        id: "c".into(),
        metadata: ContainerMetadata { name: "web".into(), attempt: 0 },
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        image: "i".into(),
        cgroup: "/c".into(),
        started_at: 1,
        limits: Resources::default(),
        counters: after,
        processes,
        written: Written::read(dir.path(), &DiskUsageCache::default(), Round::begin()).unwrap(),
    };
    let rates = Rates::default();
    let told = usage::container(&of, Sample { at: 7, rates: &rates });
    let (cpu, memory) = (told.cpu.unwrap(), told.memory.unwrap());
    assert!(cpu.usage_core_nano_seconds.unwrap().value > 0);
    assert_eq!((cpu.timestamp, cpu.usage_nano_cores), (7, None), "one look is no rate");
    assert!(memory.working_set_bytes.unwrap().value > 0);
    let layer = told.writable_layer.unwrap();
    assert!(layer.used_bytes.unwrap().value >= 10_000 && layer.inodes_used.unwrap().value == 2, "{layer:?}");
}

#[test]
fn a_group_that_is_gone_counts_nothing() {
    let path = format!("/wardlet-test-never-{}", std::process::id());
    let group = Group::open(&Hierarchies::find().unwrap(), &path).unwrap();
    assert_eq!(Counters::read(&group), Counters::default());
}

/// The tests of pods in user namespaces need it, so it must be found here.
#[test]
fn what_this_node_can_do_is_found_by_trying_it() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let found = status::probe(dir.path());
    assert!(found.user_namespaces && found.recursive_read_only, "{found:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of the trial");
    let nowhere = status::probe(Path::new("/proc"));
    assert!(!nowhere.user_namespaces, "proc cannot be idmapped: {nowhere:?}");
}
