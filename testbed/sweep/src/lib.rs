//! What tests share that kill a program at system call N, N swept over all of a run.
//!
//! The run is recorded once by strace; [`calls`] reads from that at which calls to kill. It is then repeated
//! for each, with [`Call::injection`] among strace's options. The program is an [`example`] of the crate under test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone, and a test may panic"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The n-th system call of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Which of that name, from 1.
    pub nth: usize,
}

impl Call {
    /// The options by which strace kills at the entry of this call, and looks at no other.
    #[must_use]
    pub fn injection(&self) -> [String; 4] {
        let Self { name, nth } = self;
        let inject = format!("inject={name}:signal=KILL:when={nth}");
        ["-e".to_owned(), format!("trace={name}"), "-e".to_owned(), inject]
    }
}

/// Every system call in a recording by `strace -f`, from the first on that names `place`.
#[must_use]
pub fn calls(recording: &str, place: &Path) -> Vec<Call> {
    let place = place.to_str().unwrap();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    let mut touched = false;
    for line in recording.lines() {
        let Some((name, rest)) = line.split_once(' ').and_then(|(_, l)| l.trim_start().split_once('('))
        else {
            continue;
        };
        let nth = seen.entry(name).or_default();
        *nth += 1;
        touched |= name != "execve" && rest.contains(place);
        // The end of a process cannot be interrupted by its end.
        if touched && !name.starts_with("exit") {
            found.push(Call { name: name.to_owned(), nth: *nth });
        }
    }
    found
}

/// The program `examples/NAME.rs` of the crate in `manifest_dir`, built if nobody has.
#[must_use]
pub fn example(manifest_dir: &str, name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let program = profile.join("examples").join(name);
    if !program.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").to_owned());
        let manifest = Path::new(manifest_dir).join("Cargo.toml");
        let mut command = Command::new(cargo);
        command.args(["build", "--example", name, "--manifest-path"]).arg(manifest);
        assert!(command.status().unwrap().success(), "cannot build the example {name}");
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_from_the_start_and_told_from_the_first_that_names_the_place() {
        let recording = "7 execve(\"/prog\", [\"/prog\", \"/a/dir\"], ...) = 0\n\
            7 openat(AT_FDCWD, \"/lib\", O_RDONLY) = 3\n\
            7 openat(AT_FDCWD, \"/a/dir/x\", O_RDONLY) = 3\n\
            8 +++ exited with 0 +++\n\
            7 close(3) = 0\n\
            7 exit_group(0) = ?\n";
        let call = |name: &str, nth| Call { name: name.to_owned(), nth };
        assert_eq!(calls(recording, Path::new("/a/dir")), [call("openat", 2), call("close", 1)]);
        assert_eq!(calls(recording, Path::new("/b")), []);
        assert_eq!(
            call("close", 1).injection().join(" "),
            "-e trace=close -e inject=close:signal=KILL:when=1"
        );
    }
}
