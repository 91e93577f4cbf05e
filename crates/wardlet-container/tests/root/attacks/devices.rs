//! Finding 14. Every container could use tun (10:200), which nothing had asked for; and on hosts with control groups of
//! version 2 the engine limited no device at all: a container with the host's users makes a node of the host's disk in its
//! own `/dev`, and reads it. The whole of the hierarchy `name=systemd` was visible, in which no container has a group.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use container::{Device, Engine, MountSpec, NewMount, NodeOwner};

use crate::support::{Box, Users};

fn container() -> Box {
    Box::new(Engine::Libcontainer, Users::Host, &["/bin/sleep", "1000"])
}

/// Whether a node that the container makes can be opened. `loop-control` (10:237) stands for a disk: every host has one.
fn opens(one: &Box, major: u32, minor: u32) -> String {
    let made = format!("busybox mknod /dev/made c {major} {minor}");
    one.shell(&format!("{made} && (: </dev/made) 2>&1; rm -f /dev/made; true"))
}

#[test]
fn a_node_that_a_container_makes_opens_no_device_that_it_was_not_given() {
    let mut one = container();
    one.started();
    for (major, minor) in [(10, 200), (10, 237), (1, 1), (5, 3), (10, 229)] {
        let said = opens(&one, major, minor);
        assert!(said.contains("not permitted"), "{major}:{minor}: {said:?}");
    }
    assert_eq!(opens(&one, 1, 3), "");
    assert_eq!(opens(&one, 1, 5), "");
    one.delete_and_look();
}

/// The same attack against a container that was given the device.
#[test]
fn a_device_that_was_given_can_be_used() {
    if fs::metadata("/dev/loop-control").is_err() {
        panic!("this host has no /dev/loop-control to try with");
    }
    for users in [Users::Host, Users::Pod] {
        let mut one = Box::new(Engine::Libcontainer, users, &["/bin/sleep", "1000"]);
        one.job.start.devices.push(Device {
            source: "/dev/loop-control".into(),
            target: "/dev/control".into(),
            access: "rw".into(),
            owner: NodeOwner::Container,
        });
        one.started();
        assert_eq!(one.shell("(: </dev/control) 2>&1; true"), "", "{users:?}");
        one.delete_and_look();
    }
}

#[test]
fn the_engines_state_is_for_the_hosts_root_alone() {
    let mut one = container();
    one.started();
    let mode = fs::metadata(one.job.run_dir.join("engine")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    one.delete_and_look();
}

#[test]
fn no_group_of_the_host_shows_in_a_hierarchy_without_a_controller() {
    let new = |filesystem: &str, target: &str, options: &[&str]| {
        MountSpec::New(NewMount {
            filesystem: filesystem.into(),
            target: target.into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        })
    };
    for users in [Users::Host, Users::Pod] {
        let mut one = Box::new(Engine::Libcontainer, users, &["/bin/sleep", "1000"]);
        let safe = ["nosuid", "noexec", "nodev", "ro"];
        one.job.start.mounts.extend([new("sysfs", "/sys", &safe), new("cgroup", "/sys/fs/cgroup", &safe)]);
        one.started();
        let seen = one.shell("ls /sys/fs/cgroup/systemd 2>/dev/null; true");
        assert_eq!(seen, "", "{users:?}");
        assert!(one.shell("cat /proc/self/cgroup; ls /sys/fs/cgroup").contains("memory"), "{users:?}");
        one.delete_and_look();
    }
}
