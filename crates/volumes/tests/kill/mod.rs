//! Runs `examples/tree_actor.rs` and kills it at a system call of choice.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use testkit::Call;

/// A kill leaves the same on any filesystem, and here a sync costs nothing.
pub const HOME: &str = "/dev/shm";

/// The program.
fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("tree_actor", env!("CARGO_MANIFEST_DIR")))
}

/// A run that is repeated and killed at another system call each time.
pub struct Sweep<'a> {
    /// Makes what is there at the start, in a new directory.
    pub prepare: &'a dyn Fn(&Path),
    /// The words, given that directory.
    pub words: &'a dyn Fn(&Path) -> Vec<String>,
}

impl Sweep<'_> {
    /// Every system call from the first that names the directory on.
    pub fn calls(&self) -> Vec<Call> {
        let home = tempfile::tempdir_in(HOME).unwrap();
        let (dir, log) = (self.made_in(home.path()), home.path().join("log"));
        let done = traced(&["-o", log.to_str().unwrap()], &(self.words)(&dir));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let calls = testkit::calls_since(&std::fs::read_to_string(&log).unwrap(), &dir);
        assert!(calls.len() > 30, "the recording shows too little: {calls:?}");
        calls
    }

    fn made_in(&self, home: &Path) -> PathBuf {
        let dir = home.join("dir");
        std::fs::create_dir(&dir).unwrap();
        (self.prepare)(&dir);
        dir
    }

    /// Kills a run at the call's entry; `check` sees what is left. Tells whether it was killed.
    fn kill_at(&self, call: &Call, check: impl FnOnce(&Path)) -> bool {
        let home = tempfile::tempdir_in(HOME).unwrap();
        let dir = self.made_in(home.path());
        let killed = kill_in(&(self.words)(&dir), call);
        println!("killed at {call}: {killed}");
        check(&dir);
        killed
    }

    pub fn run(&self, check: impl Fn(&Path)) {
        let calls = self.calls();
        let killed = calls.iter().filter(|call| self.kill_at(call, &check)).count();
        println!("{} system calls, killed at {killed} of them", calls.len());
        // A call may come a little earlier or later than in the recording; most must hit.
        assert!(killed * 10 > calls.len() * 9, "only {killed} of {} calls killed anything", calls.len());
    }
}

/// Runs the actor and kills it at the call; tells whether it was.
pub fn kill_in(words: &[String], call: &Call) -> bool {
    let done = traced(&call.kill(), words);
    // Either it was killed, or it had come to its end before; it never fails.
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!said.contains("Error"), "{words:?}: {said}");
    !done.status.success()
}

fn traced(options: &[impl AsRef<OsStr>], words: &[String]) -> Output {
    testkit::strace().args(options).arg(actor()).args(words).output().unwrap()
}

/// What the tracer wrote down of a run to its end, with the path of every descriptor.
pub fn recorded(words: &[String]) -> String {
    let log = tempfile::NamedTempFile::new().unwrap();
    let done = traced(&["-y", "-o", log.path().to_str().unwrap()], words);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read_to_string(log.path()).unwrap()
}

pub fn act(words: &[String]) {
    let done = Command::new(actor()).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}
