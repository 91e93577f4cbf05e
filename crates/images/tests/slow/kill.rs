//! Killed at system call N of an import, N swept: whatever was acknowledged is there, nothing is damaged,
//! and the next import makes the same store as one that was never disturbed.

use crate::common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Layer, Made, image, tree};
use images::{Images, Limits, Quiet};
use testkit::{Call, calls_since, rounds};

/// How many of the calls are tried in one round.
const KILLS: usize = 40;

/// strace over the actor.
fn traced(options: &[impl AsRef<OsStr>], store: &Path, file: &Path) -> Command {
    let mut command = testkit::strace();
    command.args(options).arg(testkit::example("image_actor", env!("CARGO_MANIFEST_DIR")));
    command.arg(store).arg("import").arg(file).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Sweep {
    home: tempfile::TempDir,
    file: PathBuf,
    made: Made,
    /// Of a store that nothing happened to.
    expected: std::collections::BTreeMap<String, String>,
}

impl Sweep {
    fn new() -> Self {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let one = Layer::new().dir("bin", 0o755).file("bin/sh", "#!").hard_link("sh", "bin/sh").finish();
        let two = Layer::new().file(".wh.sh", "").owned_file("own", "x", (5, 6)).symlink("l", "own").finish();
        let made = image("localhost/killed:1", vec![one, two]);
        let file = made.write_docker(&home.path().join("image.tar"));
        let quiet = home.path().join("quiet");
        Images::open(&quiet, Limits::default()).unwrap().import(&file, None, &Quiet).unwrap();
        let expected = tree(&quiet);
        Self { home, file, made, expected }
    }

    /// Kills at one call, looks at what is left, and imports again.
    fn kill_at(&self, call: &Call) -> bool {
        let store = self.home.path().join("store");
        let _ = std::fs::remove_dir_all(&store);
        let done = traced(&call.kill(), &store, &self.file).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        println!("killed at {call}: {}", !done.status.success());
        let images = Images::open(&store, Limits::default()).unwrap();
        let listing = images.list().unwrap();
        assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
        if said.contains("ack") {
            assert_eq!(listing.images.len(), 1, "it was acknowledged");
        }
        // What there is, is whole, and nobody is at work any more.
        assert!(listing.images.iter().all(|image| image.id == self.made.id() && image.layers.len() == 2));
        assert_eq!(std::fs::read_dir(store.join("work")).unwrap().count(), 0);
        images.import(&self.file, None, &Quiet).unwrap();
        images.collect().unwrap();
        assert_eq!(tree(&store), self.expected);
        !done.status.success()
    }
}

#[test]
fn killed_at_any_call_of_an_import() {
    let sweep = Sweep::new();
    let (store, log) = (sweep.home.path().join("recorded"), sweep.home.path().join("log"));
    let done = traced(&["-o", log.to_str().unwrap()], &store, &sweep.file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let calls = calls_since(&std::fs::read_to_string(log).unwrap(), &store);
    assert!(calls.len() > 200, "the recording shows too little: {}", calls.len());
    let step = (calls.len() / (KILLS * rounds())).max(1);
    let chosen: Vec<_> = calls.iter().step_by(step).collect();
    let killed = chosen.iter().filter(|call| sweep.kill_at(call)).count();
    println!("{} system calls, killed at {killed} of {}", calls.len(), chosen.len());
    assert!(killed * 10 > chosen.len() * 9, "only {killed} of {} killed anything", chosen.len());
}
