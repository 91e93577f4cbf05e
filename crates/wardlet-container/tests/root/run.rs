//! Containers run for real: by each engine that every machine of ours has, in the host's user namespace and
//! in one of their own. Needs root, busybox and runc.

use crate::support;

use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixListener;
use std::process::Command;

use container::{Engine, MountSpec, NamespaceSpec, NewMount, Owners};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::json;
use support::{Box, Users, debians_runc, shell};

const ALL: [Users; 3] = [Users::Host, Users::Pod, Users::New];

fn engines() -> [Engine; 2] {
    [debians_runc(), Engine::Libcontainer]
}

#[test]
fn a_container_runs_and_nothing_is_left_of_it() {
    for engine in engines() {
        for users in ALL {
            let mut one = Box::new(engine.clone(), users, &["/bin/sh", "-c", "exit 7"]);
            one.started();
            assert_eq!(one.wait(), (Some(7), None), "{engine:?} {users:?}");
            one.delete_and_look();
        }
    }
}

#[test]
fn one_more_process_runs_in_it() {
    for engine in engines() {
        for users in ALL {
            let mut one = Box::new(engine.clone(), users, &["/bin/sleep", "1000"]);
            one.started();
            assert_eq!(one.shell("echo text; cat /proc/1/comm"), "text\nsleep\n", "{engine:?} {users:?}");
            let (_, end) = one.exec(shell("exit 9")).output();
            assert_eq!(end, json!({ "exited": { "code": 9 } }));
            one.delete_and_look();
        }
    }
}

/// A container in the PID namespace of another, whose number there no process of the host has. On hosts with cgroup v1
/// it sees its own cgroups all the same.
#[test]
fn a_container_joins_a_pid_namespace_under_a_number_that_the_host_lacks() {
    for engine in engines() {
        let mut first = Box::new(engine.clone(), Users::Host, &["/bin/sleep", "1000"]);
        let space = format!("/proc/{}/ns/pid", first.started());
        let words = ["/bin/sh", "-c", "echo $$ > /tmp/number; exec sleep 1000"];
        let mut second = Box::new(engine.clone(), Users::Host, &words);
        second.job.start.namespaces.pid = NamespaceSpec::At(space.clone().into());
        second.job.start.mounts.push(MountSpec::New(NewMount {
            filesystem: "cgroup".into(),
            target: "/sys/fs/cgroup".into(),
            options: ["nosuid", "noexec", "nodev", "relatime", "ro"].map(str::to_owned).into(),
        }));
        second.job.start.mounts.insert(
            1,
            MountSpec::New(NewMount {
                filesystem: "sysfs".into(),
                target: "/sys".into(),
                options: ["nosuid", "noexec", "nodev", "ro"].map(str::to_owned).into(),
            }),
        );
        let number = number_that_the_host_lacks();
        let set = format!("echo {} > /proc/sys/kernel/ns_last_pid", number - 1);
        let done = Command::new("nsenter").arg(format!("--pid={space}")).args(["sh", "-c", &set]).status();
        assert!(done.unwrap().success());
        second.started();
        assert_eq!(second.shell("cat /tmp/number"), format!("{number}\n"), "{engine:?}");
        let path = second.job.start.cgroup.path.clone();
        let limit =
            "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true";
        assert_eq!(second.shell(limit), format!("{}\n", 256 << 20), "{engine:?} {path}");
        assert_eq!(
            second.shell("mkdir /sys/fs/cgroup/pids/more /sys/fs/cgroup/more 2>/dev/null; echo $?"),
            "1\n"
        );
        second.delete_and_look();
        first.delete_and_look();
    }
}

/// The highest number, so that no process is given it within the test.
fn number_that_the_host_lacks() -> u32 {
    let limit = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse::<u32>().unwrap();
    let free = |number: &u32| !std::path::Path::new("/proc").join(number.to_string()).exists();
    (1000..limit - 10).rev().find(free).unwrap()
}

/// Where the kernel cannot idmap the filesystem that the layers are on, as Linux 6.1 cannot a tmpfs, they are
/// the container's all the same.
#[test]
fn files_are_given_to_the_containers_users_where_they_cannot_be_idmapped() {
    for owners in [Owners::Chown, Owners::IdmapOrChown] {
        let mut one = Box::new(Engine::Libcontainer, Users::Pod, &["/bin/sleep", "1000"]);
        let file = one.layer().join("etc/of-ana");
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&file, Some(1000), Some(1001)).unwrap();
        one.job.start.rootfs.owners = owners;
        one.started();
        let seen = one.shell("stat -c '%u %g' / /bin/busybox /etc/of-ana; touch /new && stat -c %u /new");
        assert_eq!(seen, "0 0\n0 0\n1000 1001\n0\n", "{owners:?}");
        one.delete_and_look();
    }
}

/// The other side of the terminal comes by the socket that was named.
#[test]
fn a_container_with_a_terminal_hands_it_over() {
    for engine in engines() {
        for users in [Users::Host, Users::Pod] {
            let mut one = Box::new(engine.clone(), users, &["/bin/sh", "-c", "tty; stty size; exit 4"]);
            one.job.start.process.console = container::Console::Terminal;
            let path = one.path("console.sock");
            let listener = UnixListener::bind(&path).unwrap();
            let result = one.run(&["--console", path.to_str().unwrap()]);
            assert!(one.init.is_some(), "{result}");
            let (connection, _) = listener.accept().unwrap();
            let mut bytes = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            recvmsg(&connection, parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
            let master = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            let (mut master, mut text, mut part) = (File::from(master.unwrap()), Vec::new(), [0; 256]);
            while let Ok(read @ 1..) = master.read(&mut part) {
                text.extend_from_slice(&part[..read]);
            }
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.starts_with("/dev/pts/0") || text.starts_with("/dev/console"),
                "{engine:?}: {text:?}"
            );
            assert_eq!(one.wait(), (Some(4), None));
            one.delete_and_look();
        }
    }
}
