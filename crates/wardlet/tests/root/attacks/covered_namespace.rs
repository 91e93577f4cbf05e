//! One covered mount stopped the freeing of blocks on the whole node.
//!
//! Any user of the host makes a user and a mount namespace of his own, bind-mounts a namespace file there, and mounts something
//! over it. So does an isolated pod without seccomp. The kernel lists the mount, but no path leads to it any more: the census
//! could not tell which user namespace it holds, and while it could not, no block of any pod was freed.
//!
//! The census now looks for the namespace among tasks and descriptors first. A mount that stays hidden holds only what the user
//! namespace that its mount namespace belongs to can name, which is seen anyway.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::test_pods::{Site, entering, maps};

/// Far from the blocks of all other tests; each test has 16 blocks of its own.
fn pool(number: u64) -> u64 {
    3_791_650_816 + number * 16 * 65_536
}

/// The user of the host who attacks.
const USER: &str = "14242";

/// A process that has said that it is ready, and ends with the test.
struct Attacker(Child);

impl Attacker {
    fn run(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut attacker = Self(child.unwrap());
        let mut line = String::new();
        BufReader::new(attacker.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{command:?}");
        attacker
    }

    /// Namespaces of an ordinary user of the host.
    fn user_of_the_host(script: &str) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        command.args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]);
        Self::run(&mut command)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has a directory of its own, with two files in it.
const PLACE: &str = "mount -t tmpfs none /mnt && touch /mnt/kept /mnt/over && ";

/// The namespace is mounted, and covered.
const COVERED: &str = "mount --bind /mnt/over /mnt/kept && echo ready && read line";

/// A namespace that a task is in.
fn of_itself(kind: &str) -> String {
    format!("{PLACE} mount --bind /proc/self/ns/{kind} /mnt/kept && {COVERED}")
}

/// A namespace that nothing else holds.
fn of_one_that_has_ended(kind: &str) -> String {
    let inner = format!("unshare --user --map-root-user --{kind} sh -c 'read line' <&3 & ");
    let wait = "until [ \"$(readlink /proc/$!/ns/user)\" != \"$(readlink /proc/$$/ns/user)\" ]; do sleep 0.01; done; ";
    let mounted = format!("mount --bind /proc/$!/ns/{kind} /mnt/kept && kill $! && ");
    format!("{PLACE} exec 3<&0; {inner} {wait} sleep 0.2; {mounted} {COVERED}")
}

/// What `ids gc` says of the block that begins at `base`: `quarantined`, `draining` or `unseen`.
#[track_caller]
fn outcome(site: &Site, base: u64) -> (String, serde_json::Value) {
    let (_, gc) = site.json("ids gc");
    let verdicts = gc["verdicts"].as_array().unwrap();
    let verdict = verdicts.iter().find(|verdict| verdict["uids"]["hostId"] == base);
    let verdict = verdict.unwrap_or_else(|| panic!("no {base} in {gc:#}"));
    (verdict["outcome"].as_str().unwrap().to_owned(), verdict["keptBy"].clone())
}

/// A test beside this one may be a real blind spot for a moment.
#[track_caller]
fn is_vacated(site: &Site, base: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (outcome, kept_by) = outcome(site, base);
        if outcome == "quarantined" {
            return;
        }
        assert!(Instant::now() < deadline, "the block is {outcome}: {kept_by:#}");
    }
}

/// A block of another pod is released while the attacker is there.
#[track_caller]
fn is_freed(site: &Site, victim: &str) {
    let base = site.lease(victim);
    assert_eq!(site.run(&format!("ids release {victim}")).status.code(), Some(0));
    is_vacated(site, base);
}

#[test]
fn a_user_of_the_host_who_covers_a_namespace_does_not_stop_the_freeing_of_blocks() {
    let site = Site::new(pool(0), 16);
    for kind in ["user", "net", "ipc"] {
        let _attacker = Attacker::user_of_the_host(&of_itself(kind));
        is_freed(&site, kind);
    }
}

#[test]
fn a_covered_namespace_that_nothing_else_holds_does_not_stop_the_freeing_of_blocks() {
    let site = Site::new(pool(1), 16);
    for kind in ["user", "net"] {
        let _attacker = Attacker::user_of_the_host(&of_one_that_has_ended(kind));
        is_freed(&site, kind);
    }
}

#[test]
fn an_isolated_pod_that_covers_a_namespace_keeps_its_own_block_and_no_other() {
    let site = Site::new(pool(2), 16);
    let base = site.lease("attacker");
    let userns = maps(base, 65_536);
    let mut command = entering(&userns);
    command.args(["--", "unshare", "--mount", "sh", "-c", &of_one_that_has_ended("user")]);
    let attacker = Attacker::run(&mut command);
    drop(userns);
    is_freed(&site, "victim");
    site.run("ids release attacker");
    assert_eq!(outcome(&site, base).0, "draining");
    drop(attacker);
    is_vacated(&site, base);
}

/// What root of the host has mounted and covered can be uncovered by root, who has power over every user namespace.
#[test]
fn a_namespace_that_root_of_the_host_has_covered_keeps_its_block() {
    let site = Site::new(pool(3), 16);
    let base = site.lease("kept");
    let userns = maps(base, 65_536);
    let dir = tempfile::tempdir().unwrap();
    for name in ["kept", "over"] {
        File::create(dir.path().join(name)).unwrap();
    }
    let file = format!("/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
    let script = "mount --bind \"$0\" \"$1/kept\" && mount --bind \"$1/over\" \"$1/kept\" && echo ready && \
        read line; umount \"$1/kept\"; echo uncovered; read line";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, &file]).arg(dir.path());
    let mut root = Attacker::run(&mut command);
    drop(userns);
    site.run("ids release kept");
    assert_eq!(outcome(&site, base).0, "unseen");
    assert_ne!(site.lease("another"), base);
    uncover(&mut root);
    assert_eq!(outcome(&site, base).0, "draining");
    drop(root);
    is_vacated(&site, base);
}

fn uncover(root: &mut Attacker) {
    use std::io::Write as _;
    root.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut line = String::new();
    BufReader::new(root.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "uncovered\n");
}
