//! What a container may use, as the kernel has it: on control groups of either version. Needs root, busybox
//! and runc.

use crate::support;

use std::fs;

use cgroups::{Counters, Group, Hierarchies, Version};
use container::{Engine, Resources, Rlimit};
use serde_json::json;
use support::{Box, Users, debians_runc, may_limit_others, wait_until};

fn engines() -> [Engine; 2] {
    [debians_runc(), Engine::Libcontainer]
}

fn group(one: &Box) -> Group {
    Group::open(&Hierarchies::find().unwrap(), &one.job.start.cgroup.path).unwrap()
}

/// A file of the container's group, in whichever hierarchy has it.
fn read(one: &Box, name: &str) -> String {
    let file = group(one).dirs().map(|dir| dir.join(name)).find(|file| file.exists());
    fs::read_to_string(file.unwrap_or_else(|| panic!("no {name}"))).unwrap().trim().to_owned()
}

#[test]
fn limits_are_the_kernels_and_gone_with_the_container() {
    for engine in engines() {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        one.job.start.cgroup.resources = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            cpuset_cpus: Some("0".into()),
            memory: Some(96 << 20),
            pids: Some(42),
            ..Resources::default()
        };
        let init = one.started();
        let memory = (96 << 20).to_string();
        let expected = match Hierarchies::find().unwrap().version() {
            // Debian's runc draws a line where others by now draw a curve.
            Version::V2 => vec![
                ("cpu.weight", if engine == Engine::Libcontainer { "59" } else { "20" }),
                ("cpu.max", "50000 100000"),
                ("memory.max", &memory),
            ],
            Version::V1 | Version::Hybrid => vec![
                ("cpu.shares", "512"),
                ("cpu.cfs_quota_us", "50000"),
                ("cpu.cfs_period_us", "100000"),
                ("memory.limit_in_bytes", &memory),
            ],
        };
        for (name, value) in expected.into_iter().chain([("pids.max", "42"), ("cpuset.cpus", "0")]) {
            assert_eq!(read(&one, name), value, "{engine:?} {name}");
        }
        let more = one.exec(json!({ "args": ["sleep", "1000"], "tty": false }));
        let processes = [init, more.started()].into();
        assert_eq!(group(&one).processes().unwrap(), processes, "{engine:?}");
        one.delete_and_look();
        assert!(!group(&one).exists());
    }
}

#[test]
fn more_processes_than_allowed_are_not_to_be_had() {
    for engine in engines() {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        one.job.start.cgroup.resources = Resources { pids: Some(8), ..Resources::default() };
        one.started();
        let line = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 >/dev/null 2>&1 & done";
        let (text, _) = one.exec(support::shell(line)).output();
        assert!(text.contains("fork"), "{engine:?}: {text}");
        assert!(group(&one).processes().unwrap().len() <= 8);
        one.delete_and_look();
    }
}

#[test]
fn memory_that_runs_out_is_counted() {
    for engine in engines() {
        let line = "dd if=/dev/zero of=/dev/null bs=256M count=1; sleep 1000";
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sh", "-c", line]);
        let memory = Some(64 << 20);
        one.job.start.cgroup.resources = Resources { memory, memory_swap: memory, ..Resources::default() };
        one.started();
        let kills = || Counters::read(&group(&one)).memory.oom_kills;
        wait_until("a process is killed", || kills().is_some_and(|kills| kills > 0));
        assert_eq!(kills(), Some(1), "{engine:?}");
        one.delete_and_look();
    }
}

/// Without CAP_SYS_RESOURCE an engine that sets limits from outside cannot do so for processes in another
/// user namespace, and must not start them without.
#[test]
fn limits_of_processes_hold_in_a_user_namespace_or_nothing_starts() {
    for engine in engines() {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        let limit = |kind: &str, soft, hard| Rlimit { kind: kind.into(), soft, hard };
        one.job.start.process.rlimits = vec![
            limit("RLIMIT_NOFILE", 777, 9999),
            limit("RLIMIT_CORE", 0, 0),
            limit("RLIMIT_NPROC", 100, 200),
        ];
        if engine != Engine::Libcontainer && !may_limit_others() {
            let what = one.run(&[])["failed"]["what"].to_string();
            assert!(what.contains("rlimit"), "{what}");
            assert_eq!(one.left(), Vec::<String>::new());
            continue;
        }
        let init = one.started();
        let exec = one.exec(json!({ "args": ["sleep", "1000"], "tty": false }));
        for pid in [init, exec.started()] {
            let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let words: Vec<String> =
                limits.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            for line in [
                "Max open files 777 9999 files",
                "Max core file size 0 0 bytes",
                "Max processes 100 200 processes",
            ] {
                assert!(words.iter().any(|found| found == line), "{engine:?}: {limits}");
            }
        }
        one.delete_and_look();
    }
}
