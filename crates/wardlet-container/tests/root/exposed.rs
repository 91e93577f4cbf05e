//! What a container's processes have of the host's: its `/dev/null`, its keys, its kernel. Needs root, busybox,
//! perl, runc and strace.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use container::Engine;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use support::{Box, Users, debians_runc};

fn all() -> impl Iterator<Item = (Engine, Users)> {
    let engines = [debians_runc(), Engine::Libcontainer];
    engines.into_iter().flat_map(|engine| [Users::Host, Users::Pod].map(|users| (engine.clone(), users)))
}

/// With the host's own, a root that is the host's takes `/dev/null` from the whole node by
/// `chmod 0 /proc/self/fd/0`.
#[test]
fn a_stream_that_is_nothing_is_the_containers_own_nothing() {
    for (engine, users) in all() {
        let mut one = Box::new(engine.clone(), users, &["/bin/sleep", "1000"]);
        let init = one.started();
        let node = |path: &str| {
            let found = fs::metadata(format!("/proc/{init}/{path}")).unwrap();
            (found.dev(), found.ino())
        };
        assert_eq!(node("fd/0"), node("root/dev/null"), "{engine:?} {users:?}");
        let said = one.shell("stat -L -c '%d %i' /proc/self/fd/0 /dev/null");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.first(), lines.last(), "{engine:?} {users:?}");
        if users == Users::Host {
            let hosts = fs::metadata("/dev/null").unwrap();
            assert_ne!(node("fd/0"), (hosts.dev(), hosts.ino()));
            // What the container has put there instead is not opened.
            one.shell("rm /dev/null && touch /dev/null");
            let failed = one.exec(support::shell("true")).next().0;
            assert!(failed.to_string().contains("the container's /dev/null"), "{failed}");
        }
        one.delete_and_look();
    }
}

/// Whoever has a key's keyring has the key, whatever user it is.
#[test]
fn the_keys_of_whoever_started_it_are_not_the_containers() {
    const SECRET: &str = "wardlet-test-secret";
    kernel::new_session_keyring().unwrap();
    let put = format!(
        "($t, $d, $v) = (\"user\", \"{SECRET}\", \"x\"); $k = syscall(248, $t, $d, $v, 1, -3); \
         exit($k < 0 || syscall(250, 5, $k, 0x3f000000) != 0)"
    );
    assert!(Command::new("/usr/bin/perl").args(["-e", &put]).status().unwrap().success());
    assert!(fs::read_to_string("/proc/keys").unwrap().contains(SECRET));
    for (engine, users) in all() {
        let mut one =
            Box::new(engine.clone(), users, &["/bin/sh", "-c", "cat /proc/keys > /tmp/keys; sleep 1000"]);
        one.job.start.masked_paths.clear();
        one.started();
        support::wait_until("the keys are written", || {
            one.shell("cat /tmp/keys; echo there").contains("there")
        });
        let seen = one.shell("cat /tmp/keys /proc/keys");
        assert!(!seen.contains(SECRET), "{engine:?} {users:?}: {seen}");
        one.delete_and_look();
    }
    // Not for another test on this thread.
    kernel::new_session_keyring().unwrap();
}

/// This stands for an engine with a kernel of its own that starts no commands: the process that it names is the host's,
/// in the host's files. A real one is in `slow_runsc`.
const OTHER_KERNEL: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --pid-file) file=$2; shift;;
    run) run=1;;
  esac
  shift
done
[ -n "$run" ] || exit 0
sleep 1000 </dev/null >/dev/null 2>&1 3>&- &
echo $! >"$file"
"#;

#[test]
fn a_command_never_runs_beside_the_process_of_a_container_that_has_another_kernel() {
    let mut one = Box::new(Engine::Libcontainer, Users::Host, &["/bin/sleep", "1000"]);
    let path = one.path("engine.sh");
    fs::write(&path, OTHER_KERNEL).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    one.job.engine = Engine::Oci { path: path.clone(), args: vec![] };
    one.started();
    let proof = one.path("proof");
    let answer = one.exec(support::shell(&format!("touch {}", proof.display()))).next().0;
    let what = answer["failed"]["what"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(what.starts_with("engine.sh"), "the engine is asked, and this one starts nothing: {what}");
    assert!(!proof.exists(), "the command has run on the host");
}

/// A container may trace all processes that it sees, if that is what it was given. One more process is held
/// back in its very first call, and looked at as such a container could.
#[test]
fn one_more_process_has_no_more_than_the_first_from_its_first_moment() {
    for users in [Users::Host, Users::Pod] {
        let mut one = Box::new(Engine::Libcontainer, users, &["/bin/sleep", "1000"]);
        let init = one.started();
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh", "strace", "-qqf", "-o", "/dev/null"]);
        command.args(["-e", "trace=setsid", "-e", "inject=setsid:delay_enter=1500000"]);
        command.arg(support::helper()).arg("exec").arg(one.dir()).stdin(Stdio::from(theirs));
        let mut child = command.spawn().unwrap();
        drop(command);
        send(&ours, support::shell("exit 7").to_string().as_bytes(), SendFlags::empty()).unwrap();
        let mut found = None;
        support::wait_until("it is in the container", || {
            found = beside(init);
            found.is_some()
        });
        let (status, open) = found.unwrap();
        let first = fs::read_to_string(format!("/proc/{init}/status")).unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Uid", "Gid"] {
            assert_eq!(line(&status, set), line(&first, set), "{set} {users:?}");
        }
        let strange: Vec<_> = open.iter().filter(|(number, _)| *number > 2).collect();
        assert!(matches!(strange.as_slice(), [(_, path)] if path.starts_with("socket:")), "{open:?}");
        assert_eq!(child.wait().unwrap().code(), Some(7));
        one.delete_and_look();
    }
}

fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find(|line| line.starts_with(name))
}

type Open = Vec<(u32, String)>;

/// What is known of another process in the PID namespace of `init`, if there is one.
fn beside(init: u32) -> Option<(String, Open)> {
    let space = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let other = pids.find(|pid| *pid != init && space(*pid).is_some() && space(*pid) == space(init))?;
    let open = |entry: fs::DirEntry| {
        let path = fs::read_link(entry.path()).ok()?.display().to_string();
        Some((entry.file_name().to_str()?.parse().ok()?, path))
    };
    let open = fs::read_dir(format!("/proc/{other}/fd")).ok()?.flatten().filter_map(open).collect();
    Some((fs::read_to_string(format!("/proc/{other}/status")).ok()?, open))
}
