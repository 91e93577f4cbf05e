//! A user of the node prepares the directory that root is told to use: with a link at the lock of the CRI socket, and
//! with a socket of their own that answers in the runtime's place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::machine::{Lan, Machine, pod, text};

/// The user that attacks.
const USER: u32 = 61_234;
/// How long a refusal may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A directory of that user.
fn theirs(machine: &Machine) -> PathBuf {
    let dir = machine.path("theirs");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(USER), Some(USER)).unwrap();
    dir
}

#[track_caller]
fn assert_refused(machine: &Machine, args: &[&str], dir: &Path) {
    let mut running = machine.command(args).spawn().unwrap();
    let (pid, began) = (rustix::process::Pid::from_child(&running), Instant::now());
    while running.try_wait().unwrap().is_none() && began.elapsed() < PATIENCE {
        sleep(Duration::from_millis(10));
    }
    // It serves, or waits for an answer of the other user's socket.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let output = running.wait_with_output().unwrap();
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&format!("cannot use {}: it belongs to user {USER}", dir.display())), "{said}");
    assert!(said.contains("hint: name a directory that only root can write to"), "{said}");
}

#[test]
fn a_link_at_the_sockets_lock_makes_and_closes_no_file_of_root() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let dir = theirs(&machine);
    let (victim, absent) = (machine.path("victim"), machine.path("absent"));
    fs::write(&victim, "precious").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&victim, dir.join("cri.sock.lock")).unwrap();
    symlink(&absent, dir.join("other.sock.lock")).unwrap();
    let [socket, other] =
        ["cri.sock", "other.sock"].map(|name| format!("unix://{}", dir.join(name).display()));
    assert_refused(&machine, &["cri", "--listen", &socket], &dir);
    assert_refused(&machine, &["cri", "--listen", &other], &dir);
    assert_refused(&machine, &["cri", "--run-dir", dir.to_str().unwrap()], &dir);
    assert_refused(&machine, &["cri", "--run-dir", dir.join("below").to_str().unwrap()], &dir);
    assert_eq!(fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o644);
    assert!(!absent.exists() && !dir.join("below").exists());
}

#[test]
fn no_pod_is_given_to_the_socket_of_another_user() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let dir = theirs(&machine);
    let listener = UnixListener::bind(dir.join("cri.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    chown(dir.join("cri.sock"), Some(USER), Some(USER)).unwrap();
    let file = machine.manifest("pod.yaml", &pod("web", "sleep 1000", ""));
    assert_refused(&machine, &["run", "--run-dir", dir.to_str().unwrap(), &file], &dir);
    let link = machine.path("link");
    symlink(&dir, &link).unwrap();
    assert_refused(&machine, &["run", "--run-dir", link.to_str().unwrap(), &file], &dir);
    let connected = listener.accept().map(drop);
    assert_eq!(connected.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// The attack: links in a state directory of another user had root empty, remove and close directories elsewhere.
#[test]
fn the_state_directory_of_another_user_is_refused_by_every_command() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let (state, victim) = (machine.path("state"), machine.path("victim"));
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o755)).unwrap();
    let work = state.join("images/work");
    fs::remove_dir_all(&work).or_else(|_| fs::remove_file(&work)).unwrap_or_default();
    symlink(&victim, &work).unwrap();
    chown(&state, Some(USER), Some(USER)).unwrap();
    let file = machine.manifest("pod.yaml", &pod("web", "sleep 1000", ""));
    for args in [&["cri"][..], &["run", &file], &["image", "list"], &["ids", "list"], &["ps"]] {
        assert_refused(&machine, args, &state);
    }
    assert!(victim.join("precious").exists());
    assert_eq!(fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o755);
    fs::remove_file(&work).unwrap();
    chown(&state, Some(0), Some(0)).unwrap();
}

/// The attack: root's link leads through a directory of the user, which leads on to root's directory, and elsewhere later.
#[test]
fn a_link_through_the_directory_of_another_user_is_refused() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let dir = theirs(&machine);
    let (real, ours) = (machine.path("real"), machine.path("ours"));
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&real, dir.join("link")).unwrap();
    symlink(dir.join("link"), &ours).unwrap();
    let socket = format!("unix://{}/cri.sock", ours.display());
    assert_refused(&machine, &["cri", "--listen", &socket], &dir);
    assert_refused(&machine, &["cri", "--run-dir", ours.to_str().unwrap()], &dir);
    let back = machine.path("absent/../theirs/x");
    let output = machine.output(&["cri", "--run-dir", back.to_str().unwrap()]);
    assert!(text(&output).contains("the path goes back from it"), "{}", text(&output));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

/// The attack: a user that can open the cgroup of all pods holds its lock, and no server starts again.
#[test]
fn the_cgroup_of_all_pods_cannot_be_opened_by_other_users() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = machine.manifest("pod.yaml", &pod("web", "sleep 1000", ""));
    machine.done(&["run", "-d", &file]);
    let cgroup = node::Instance::of(&machine.path("state")).cgroup();
    let mut found = 0;
    for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        if let Ok(group) = fs::metadata(hierarchy.path().join(cgroup.trim_start_matches('/'))) {
            assert_eq!(group.permissions().mode() & 0o066, 0, "{}", hierarchy.path().display());
            found += 1;
        }
    }
    assert!(found > 0);
    machine.done(&["stop", "web", "--grace", "0"]);
}
