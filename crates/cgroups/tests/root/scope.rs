//! Scopes of containers. Those of systemd are tried in the virtual machine where it is process 1.

use std::fs;
use std::process::{Child, Command};

use cgroups::{Error, Group, Groups, Resources};

const SLICE: &str = "/wardlet_scope_test.slice";

const CALLS: u32 = 50;

/// A process that only waits; killed whatever becomes of the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn cgroup(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.0.id())).unwrap().trim().to_owned()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(group: &Group, file: &str) -> String {
    fs::read_to_string(group.dirs().next().unwrap().join(file)).unwrap().trim().to_owned()
}

/// A unit of this name that has failed, as after a stop that took too long.
fn leave_a_failed_scope(name: &str) {
    let failing = ["--scope", "-q", "-p", "DefaultDependencies=no", "-p", "RuntimeMaxSec=1"];
    let mut command = Command::new("systemd-run");
    command.args(failing).arg(format!("--slice={}", SLICE.trim_start_matches('/')));
    command.arg(format!("--unit={name}")).args(["sleep", "1000"]);
    assert!(!command.status().unwrap().success());
    let is_failed = Command::new("systemctl").args(["is-failed", "-q", name]).status().unwrap();
    assert!(is_failed.success());
}

#[test]
fn a_scope_is_made_around_a_process_in_place_of_a_failed_one_and_goes_with_its_container() {
    let groups = Groups::find().unwrap();
    let path = format!("{SLICE}/wardlet-7f.scope/container");
    let holder = Sleeper::new();
    let limits = Resources { cpu_shares: Some(2048), memory: Some(64 << 20), ..Resources::default() };
    let make = || groups.make_scope(&path, holder.0.id(), &limits);
    if !groups.has_systemd() {
        assert!(matches!(make(), Err(Error::NoSystemd)));
        return;
    }
    groups.make(SLICE).unwrap();
    // Each is a connection of its own. Now and then systemd had read the call with the end of the authentication, and did not
    // look at it before the connection was closed.
    (0..CALLS).for_each(|_| groups.make(SLICE).unwrap());
    leave_a_failed_scope("wardlet-7f.scope");
    let beside = make().unwrap();
    assert_eq!(holder.cgroup(), format!("0::{SLICE}/wardlet-7f.scope/holder"));
    let (scope, container) = (groups.open(&format!("{SLICE}/wardlet-7f.scope")), groups.open(&path).unwrap());
    // Shares count beside other containers. Limits would be those of the holder, too.
    assert_eq!(
        (read(&scope.unwrap(), "memory.max"), read(&container, "cgroup.procs")),
        ("max".into(), String::new())
    );
    groups.apply(&path, &limits).unwrap();
    assert_eq!(read(&container, "memory.max"), (64 << 20).to_string());
    for cgroup in [&format!("{SLICE}/wardlet-7f.scope"), &path] {
        assert_eq!(read(&groups.open(cgroup).unwrap(), "cpu.weight"), "174", "{cgroup}");
    }
    let held = Sleeper::new();
    container.add(held.0.id()).unwrap();
    drop(holder);
    beside.remove().unwrap();
    assert!(container.exists());
    groups.kill_all(&path).unwrap();
    groups.remove(&path).unwrap();
    assert!(!groups.exists(&format!("{SLICE}/wardlet-7f.scope")));
    // None is no error.
    groups.remove(&path).unwrap();
    groups.remove(SLICE).unwrap();
    assert!(!groups.exists(SLICE));
}
