//! The first process of a shared PID namespace. Needs root.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{BASE, userns};
use kernel::{Join, Namespace, NamespaceKind, PidInit, Process};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

/// One that is gone when the test is over.
struct Guarded(PidInit);

impl Guarded {
    fn start(init: PidInit) -> Self {
        Self(init)
    }

    fn status(&self) -> String {
        fs::read_to_string(format!("/proc/{}/status", self.0.process.pid())).unwrap()
    }

    fn join(&self, script: &str) -> Command {
        let kinds = if self.in_other_users() {
            vec![NamespaceKind::User, NamespaceKind::Pid]
        } else {
            vec![NamespaceKind::Pid]
        };
        let mut command = Join::only(&self.0.process, kinds).unwrap().command("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn in_other_users(&self) -> bool {
        let own = Process::own().unwrap().namespaces().unwrap();
        self.0.process.namespaces().unwrap().get(NamespaceKind::User) != own.get(NamespaceKind::User)
    }

    fn ends(&self) {
        soon("it has ended", || !self.0.process.is_running().unwrap());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.process.signal(Signal::KILL);
        let _ = waitpid(Pid::from_raw(self.0.process.pid()), WaitOptions::empty());
    }
}

fn soon(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn it_is_the_first_of_a_namespace_that_belongs_to_the_pod() {
    let users = userns();
    let init = Guarded::start(PidInit::start(Some(users.as_fd())).unwrap());
    let owner = init.0.namespace.owner().unwrap().unwrap();
    assert_eq!(owner.id(), Namespace::of(users.as_fd().try_clone_to_owned().unwrap()).unwrap().id());
    let status = init.status();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("NSpid:").ends_with("\t1"), "{status}");
    assert_eq!(line("Uid:"), format!("Uid:\t{BASE}\t{BASE}\t{BASE}\t{BASE}"));
    assert_eq!(line("Groups:").trim_end(), "Groups:");
    assert_eq!(line("CapEff:"), "CapEff:\t0000000000000000");
    let open = fs::read_dir(format!("/proc/{}/fd", init.0.process.pid())).unwrap().count();
    assert_eq!(open, 0, "it has none of our descriptors");
}

#[test]
fn orphans_are_taken_in() {
    let init = Guarded::start(PidInit::start(None).unwrap());
    let made = init.join("(sleep 0.05 & sleep 0.05 &) ; echo $$").output().unwrap();
    assert!(made.status.success());
    let children = || {
        let pid = init.0.process.pid();
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
    };
    soon("all orphans are gone", || children().is_empty());
}

#[test]
fn only_somebody_outside_can_end_it_and_all_end_with_it() {
    let users = userns();
    let init = Guarded::start(PidInit::start(Some(users.as_fd())).unwrap());
    let status = init.join("kill -TERM 1; kill -KILL 1; kill -INT 1; sleep 0.05").status().unwrap();
    assert!(status.success());
    assert!(init.0.process.is_running().unwrap());
    let mut inside = init.join("exec sleep 1000").stdout(Stdio::null()).spawn().unwrap();
    init.0.process.signal(Signal::TERM).unwrap();
    init.ends();
    assert!(!inside.wait().unwrap().success());
}

#[test]
fn what_is_no_user_namespace_is_refused() {
    let net = Namespace::open(std::path::Path::new("/proc/thread-self/ns/net")).unwrap();
    let error = PidInit::start(Some(net.as_fd())).unwrap_err();
    assert!(error.to_string().contains("start the first process of a PID namespace"), "{error}");
}
