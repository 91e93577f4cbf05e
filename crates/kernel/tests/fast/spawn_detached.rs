//! A process that outlives the one that spawned it, and has nothing of it.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};

/// What a detached shell writes of itself, once it is there.
fn said(dir: &Path, script: &str) -> String {
    let script = format!("{{ {script}; }} > {dir}/new; mv {dir}/new {dir}/said", dir = dir.display());
    kernel::spawn_detached(Command::new("/bin/sh").arg("-c").arg(script)).unwrap();
    let path = dir.join("said");
    testkit::wait_until("the detached process has written", || path.exists());
    fs::read_to_string(path).unwrap()
}

#[test]
fn it_has_neither_our_descriptors_nor_our_directory_nor_our_session() {
    let dir = tempfile::tempdir().unwrap();
    let inherited = File::create(dir.path().join("inherited")).unwrap();
    fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
    let number = inherited.as_raw_fd();
    let script = format!(
        "readlink /proc/$$/cwd; readlink /proc/$$/fd/0; readlink /proc/$$/fd/2; \
         [ -e /proc/$$/fd/{number} ] && echo open || echo closed; cut -d ' ' -f 6 /proc/$$/stat"
    );
    let said = said(dir.path(), &script);
    let [cwd, input, errors, ours, session] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!((cwd, input, errors, ours), ("/", "/dev/null", "/dev/null", "closed"));
    // Not with rustix: it panics where the leader of our session is outside our PID namespace, and
    // the session is 0.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    assert_ne!(Some(session), after_name.split(' ').nth(3));
}

#[test]
fn it_blocks_all_signals() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("status");
    // Not in a shell: some unblock what they block.
    kernel::spawn_detached(Command::new("/bin/cp").arg("/proc/self/status").arg(&copy)).unwrap();
    let mut mask = None;
    testkit::wait_until("the detached process has copied its status", || {
        let status = fs::read_to_string(&copy).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        mask = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
        mask.is_some() && status.contains("nonvoluntary_ctxt_switches")
    });
    // All but SIGKILL, SIGSTOP and the two that the C library keeps for itself.
    assert!((!mask.unwrap()).count_ones() <= 4, "{mask:x?}");
}

#[test]
fn it_is_no_child_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let said = said(dir.path(), "grep PPid /proc/$$/status");
    let parent: u32 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_ne!(parent, std::process::id());
}

#[test]
fn a_program_that_cannot_be_run_is_an_error() {
    let nowhere = PathBuf::from("/nowhere/program");
    let error = kernel::spawn_detached(&mut Command::new(nowhere)).unwrap_err();
    assert_eq!(error, kernel::Error::SpawnDetached { errno: Errno::NOENT });
}
