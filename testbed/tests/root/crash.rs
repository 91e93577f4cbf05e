//! Killed at any moment of its start, a testbed leaves nothing that the next command does not find.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::cluster::sweep::leftovers;
use testbed::paths::{DATA_ROOT, RUN_ROOT};
use testbed::{ProcessId, Record};

fn rounds() -> u64 {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// Whatever on this host carries the testbed's name.
fn left(name: &str) -> Vec<String> {
    let cgroup = format!("wardlet-testbed-{name}");
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let text = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if text.contains(&cgroup) && pid.and_then(ProcessId::of).is_some() {
            left.push(format!("process {}", entry.file_name().display()));
        }
    }
    let directories = Command::new("find").args(["/sys/fs/cgroup", "-name", &cgroup]).output().expect("find");
    left.extend(String::from_utf8_lossy(&directories.stdout).lines().map(str::to_owned));
    let places = [RUN_ROOT, DATA_ROOT].map(|root| Path::new(root).join(name));
    left.extend(places.iter().filter(|path| path.exists()).map(|path| path.display().to_string()));
    left
}

#[test]
fn a_testbed_killed_at_any_moment_of_its_start_is_cleaned_up() {
    for round in 0..rounds() {
        let name = format!("crash-{}-{round}", std::process::id());
        let mut up = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["up", "etcd", "containerd", "--name", &name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("testbed up");
        // From before the first directory to after the last daemon.
        let moment = Duration::from_millis(round * round * 2000 / (rounds() * rounds()));
        std::thread::sleep(moment);
        let record = Record::read(&name).ok();
        let ours = record.iter().flat_map(|record| [record.keeper, record.supervisor]).flatten();
        for process in ours {
            process.signal(Signal::KILL);
        }
        up.kill().expect("it is our child");
        up.wait().expect("its end");
        assert_eq!(cleaned(&name), Vec::<String>::new(), "round {round}, killed after {moment:?}");
    }
}

/// What is left after the next commands. One whose keeper was just being started is known to nobody until that has
/// written its record, and has then to be ended in the ordinary way.
fn cleaned(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let _ = Command::new(env!("CARGO_BIN_EXE_testbed")).args(["down", name]).output();
        leftovers().expect("a sweep");
        found = left(name);
        if found.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    found
}
