//! Programs started in all namespaces of a process at once. Needs root.

use crate::common;

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::BASE;
use kernel::{Join, NamespaceKind, Owner, Process};
use rustix::io::Errno;
use rustix::process::Signal;
use testkit::{wait_for, wait_until};

/// A process that is in namespaces of its own of every kind but time, with a block of IDs.
struct Pod {
    unshare: Child,
    init: Process,
}

impl Pod {
    fn start() -> Self {
        let kinds =
            ["--user", "--mount", "--net", "--ipc", "--uts", "--cgroup", "--pid", "--fork", "--kill-child"];
        let unshare =
            Command::new("unshare").args(kinds).args(["sleep", "1000"]).stdin(Stdio::null()).spawn().unwrap();
        let pid =
            wait_for("the child runs sleep", || only_child(unshare.id()).filter(|pid| comm(*pid) == "sleep"));
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{pid}/{map}"), format!("0 {BASE} 65536\n")).unwrap();
        }
        Self { unshare, init: Process::open(pid).unwrap() }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.init.signal(Signal::KILL);
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn only_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn shell(pod: &Pod, script: &str) -> Command {
    let mut command = Join::all(&pod.init).unwrap().command("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_program_is_in_every_namespace_that_the_process_is_in() {
    let pod = Pod::start();
    let joined = Join::all(&pod.init).unwrap();
    let own = Process::own().unwrap().namespaces().unwrap();
    let theirs = pod.init.namespaces().unwrap();
    assert_eq!(joined.kinds(), own.differing(&theirs).collect::<Vec<_>>());
    assert_eq!(joined.kinds().len(), 7, "all but time: {:?}", joined.kinds());
    let mut between = joined.command("/bin/sleep").arg("1000").spawn().unwrap();
    let program =
        wait_for("the child runs sleep", || only_child(between.id()).filter(|pid| comm(*pid) == "sleep"));
    let found = Process::open(program).unwrap();
    assert_eq!(found.namespaces().unwrap(), theirs);
    let status = fs::read_to_string(format!("/proc/{program}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{BASE}\t{BASE}\t{BASE}\t{BASE}")), "{status}");
    assert!(status.lines().any(|line| line.trim_end() == "Groups:"), "{status}");
    // Whoever kills what it has started has killed the program.
    between.kill().unwrap();
    between.wait().unwrap();
    wait_until("the process has ended", || !found.is_running().unwrap());
}

#[test]
fn its_output_and_its_end_come_back() {
    let pod = Pod::start();
    let output = shell(&pod, "id -u; echo $$ >&2; exit 7").output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"0\n".as_slice(), Some(7)));
    let pid: u32 = String::from_utf8(output.stderr).unwrap().trim().parse().unwrap();
    assert!(pid < 100, "a number of the pod's own: {pid}");
    let killed = shell(&pod, "kill -TERM $$").status().unwrap();
    assert_eq!(killed.signal(), Some(15));
}

#[test]
fn a_program_can_be_another_user_than_root() {
    let pod = Pod::start();
    let join = Join::all(&pod.init).unwrap().user(Owner { uid: 1000, gid: 2000 });
    let output = join.command("/bin/sh").args(["-c", "id -u; id -g; id -G"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1000\n2000\n2000\n");
}

/// The process in between must not keep the ends of pipes that the program has closed.
#[test]
fn a_program_that_closes_its_output_has_closed_it() {
    let pod = Pod::start();
    let mut between =
        shell(&pod, "echo text; exec >&- ; exec sleep 1000").stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    between.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text\n");
    between.kill().unwrap();
    between.wait().unwrap();
}

#[test]
fn a_start_that_fails_says_why() {
    let pod = Pod::start();
    let error = Join::all(&pod.init).unwrap().command("/no/such/program").spawn().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOENT.raw_os_error()));
    // One cannot enter the user namespace that one is in.
    let own = Process::own().unwrap();
    let error =
        Join::only(&own, vec![NamespaceKind::User]).unwrap().command("/bin/true").spawn().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
}

#[test]
fn with_no_pid_namespace_there_is_nobody_in_between() {
    let pod = Pod::start();
    let join = Join::only(&pod.init, vec![NamespaceKind::Net]).unwrap();
    let mut child = join.command("/bin/sleep").arg("1000").spawn().unwrap();
    let found = Process::open(child.id()).unwrap().namespaces().unwrap();
    assert_eq!(found.get(NamespaceKind::Net), pod.init.namespaces().unwrap().get(NamespaceKind::Net));
    assert_eq!(comm(child.id()), "sleep");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn namespaces_tell_whose_they_are() {
    let pod = Pod::start();
    let user = pod.init.namespace(NamespaceKind::User).unwrap();
    let net = pod.init.namespace(NamespaceKind::Net).unwrap();
    assert_eq!(net.owner().unwrap().unwrap().id(), user.id());
    let ours = kernel::Namespace::open(Path::new("/proc/self/ns/user")).unwrap();
    assert_eq!(user.parent().unwrap().unwrap().id(), ours.id());
    assert_eq!(user.owner().unwrap().unwrap().id(), ours.id());
    // What is above the first is out of sight.
    assert!(ours.parent().unwrap().is_none());
    assert_eq!(user.owner_uid().unwrap(), 0);
    assert_eq!(pod.init.namespace(NamespaceKind::Pid).unwrap().owner().unwrap().unwrap().id(), user.id());
}
