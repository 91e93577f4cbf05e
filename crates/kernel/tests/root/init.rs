//! The first process of a shared PID namespace. Needs root.

use crate::common;

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{BASE, userns};
use kernel::{Join, Namespace, NamespaceKind, PidInit, Process};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use testkit::wait_until;

/// One that is gone when the test is over.
struct Guarded(PidInit);

impl Guarded {
    fn start(mut init: PidInit) -> Self {
        init.detach().unwrap();
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
        wait_until("it has ended", || !self.0.process.is_running().unwrap());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.process.signal(Signal::KILL);
        let _ = waitpid(Pid::from_raw(self.0.process.pid()), WaitOptions::empty());
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
    let open = || fs::read_dir(format!("/proc/{}/fd", init.0.process.pid())).unwrap().count();
    wait_until("it has none of our descriptors", || open() == 0);
}

/// What the mightiest container of a pod finds in it, which may trace every process that it sees.
#[test]
fn it_leads_nowhere() {
    let users = userns();
    for owner in [None, Some(users.as_fd())] {
        let init = Guarded::start(PidInit::start(owner).unwrap());
        let proc = PathBuf::from(format!("/proc/{}", init.0.process.pid()));
        let names = |path: &str| {
            let entries = fs::read_dir(proc.join(path)).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        for place in ["root", "root/..", "root/../..", "cwd", "cwd/../.."] {
            assert!(names(place).is_empty(), "{place}: {:?}", names(place));
        }
        let wrote = fs::write(proc.join("root/file"), "").unwrap_err();
        assert_eq!(wrote.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        let mounts = fs::read_to_string(proc.join("mountinfo")).unwrap();
        assert_eq!(mounts.lines().count(), 1, "{mounts}");
        assert!(mounts.contains(" / / ro,"), "{mounts}");
        let devices = fs::read_to_string(proc.join("net/dev")).unwrap();
        assert_eq!(devices.lines().count(), 3, "only a loopback: {devices}");
        let own = Process::own().unwrap().namespaces().unwrap();
        let theirs = init.0.process.namespaces().unwrap();
        let kinds = [
            NamespaceKind::Mnt,
            NamespaceKind::Net,
            NamespaceKind::Ipc,
            NamespaceKind::Uts,
            NamespaceKind::Pid,
            NamespaceKind::Cgroup,
        ];
        for kind in kinds {
            assert_ne!(own.get(kind), theirs.get(kind), "{kind}");
        }
    }
}

#[test]
fn it_has_no_words_of_ours_and_nothing_to_gain() {
    let init = Guarded::start(PidInit::start(None).unwrap());
    let read = |name: &str| fs::read(format!("/proc/{}/{name}", init.0.process.pid())).unwrap();
    let said = |bytes: Vec<u8>| bytes.into_iter().filter(|byte| *byte != 0).collect::<Vec<u8>>();
    assert_eq!(said(read("cmdline")), b"wardlet-init");
    assert!(said(read("environ")).is_empty());
    assert_eq!(read("comm"), b"wardlet-init\n");
    let status = init.status();
    for line in ["CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

/// It would else stay for ever if its maker were killed before anybody else knows of it.
#[test]
fn until_it_is_let_go_it_ends_with_its_maker() {
    let init = PidInit::start(None).unwrap();
    let process = Process::open(init.process.pid().unsigned_abs()).unwrap();
    assert!(process.is_running().unwrap());
    drop(init);
    wait_until("it has ended", || !process.is_running().unwrap());
    waitpid(Pid::from_raw(process.pid()), WaitOptions::empty()).unwrap();
    let mut init = PidInit::start(None).unwrap();
    init.detach().unwrap();
    let init = Guarded(init);
    thread::sleep(Duration::from_millis(50));
    assert!(init.0.process.is_running().unwrap());
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
    wait_until("all orphans are gone", || children().is_empty());
}

#[test]
fn only_somebody_outside_can_end_it_and_all_end_with_it() {
    let users = userns();
    let init = Guarded::start(PidInit::start(Some(users.as_fd())).unwrap());
    let status = init.join("kill -TERM 1; kill -KILL 1; kill -INT 1; sleep 0.05").status().unwrap();
    assert!(status.success());
    assert!(init.0.process.is_running().unwrap());
    // By `rt_sigqueueinfo` one can write that the signal comes from outside.
    let forged =
        r#"/usr/bin/perl -e '$i = pack("i32", 15, 0, -1); exit(syscall(129, 1, 15, $i) != 0)' && sleep 0.05"#;
    assert!(init.join(forged).status().unwrap().success());
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
