//! The helper killed at each system call that changes something, for each engine; `delete` then leaves
//! nothing. Needs root, busybox, runc and strace.
//!
//! The run is recorded once; then it is repeated for each of these calls, and killed at its entry.
//! `WARDLET_ROUNDS` bounds how many are tried for an engine; they are spread over the whole run.

use crate::support;

use std::fs;

use container::Engine;
use rustix::process::{WaitOptions, wait};
use support::{Box, Users, debians_runc, wait_until};
use testkit::{Call, rounds_or};

/// What changes something that outlives the process, or has others change it.
const CHANGES: &[&str] = &[
    "chdir",
    "chmod",
    "clone",
    "clone3",
    "fchmod",
    "fchown",
    "flock",
    "fsmount",
    "kill",
    "mkdir",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "pidfd_send_signal",
    "rename",
    "rmdir",
    "sendmsg",
    "sendto",
    "setgroups",
    "socketpair",
    "symlink",
    "umask",
    "umount2",
    "unlink",
    "unlinkat",
    "unshare",
    "vfork",
    "wait4",
    "write",
    "connect",
    "setsockopt",
    "bind",
    "listen",
    "prctl",
    "exit_group",
    "execve",
];

/// The calls of a whole run that change something.
fn record(engine: &Engine) -> Vec<Call> {
    let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
    let log = one.path("strace");
    one.run_traced(&["-o", log.to_str().unwrap()]);
    assert!(one.init.is_some(), "{}", fs::read_to_string(&log).unwrap());
    let text = fs::read_to_string(&log).unwrap();
    one.delete_and_look();
    testkit::changes(&text, |name| CHANGES.contains(&name))
}

fn swept(engine: &Engine) {
    let calls = record(engine);
    let step = calls.len().div_ceil(rounds_or(40)).max(1);
    println!("{engine:?}: {} calls, every {step}. of them", calls.len());
    for call in calls.iter().step_by(step) {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        one.run_traced(&call.kill());
        // Whatever was told, nobody wrote it down: as if the monitor had died, too.
        one.init = None;
        let _ = fs::remove_file(one.dir().join("started.json"));
        let done = one.delete();
        assert!(done.status.success(), "{call}: {}", String::from_utf8_lossy(&done.stderr));
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        wait_until(&format!("nothing is left after {call}"), || {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            one.left().is_empty()
        });
    }
}

/// One after the other: each takes in the orphans of all.
#[test]
fn a_helper_killed_at_any_call_leaves_nothing_that_delete_does_not_take_away() {
    testkit::need_strace();
    for engine in [Engine::Libcontainer, debians_runc()] {
        swept(&engine);
    }
}
