//! The maps of a user namespace that no task lives in: a task of ours goes in and shows them.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kernel::Namespace;

use crate::maps::Maps;
use crate::walk::text;

const NSENTER: &str = "/usr/bin/nsenter";
const CAT: &str = "/usr/bin/cat";

/// The maps of `space`, a user namespace, as the host sees them.
pub(crate) fn maps_of(space: &Namespace) -> Result<Maps, String> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), space.as_fd().as_raw_fd());
    Visitor::send(Path::new(&path))?.maps()
}

/// It leaves when this is dropped.
struct Visitor(Child);

impl Visitor {
    fn send(space: &Path) -> Result<Self, String> {
        let mut user = OsString::from("--user=");
        user.push(space);
        // Root need not be mapped inside, so the visitor keeps its credentials.
        let child = Command::new(NSENTER)
            .arg(user)
            .args(["--preserve-credentials", "--", CAT])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut visitor = Self(child.map_err(|e| format!("cannot run {NSENTER} (of util-linux): {e}"))?);
        if visitor.answers() { Ok(visitor) } else { Err(visitor.last_words()) }
    }

    /// `cat` answers only once it runs, and it runs only inside.
    fn answers(&mut self) -> bool {
        let mut byte = [0];
        let sent = self.0.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"\n").is_ok());
        sent && self.0.stdout.as_mut().is_some_and(|stdout| stdout.read_exact(&mut byte).is_ok())
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            // Whatever was said is better than an error about listening.
            let _ = stderr.read_to_string(&mut words);
        }
        format!("cannot join it: {}", words.trim())
    }

    fn maps(&self) -> Result<Maps, String> {
        let own = PathBuf::from(format!("/proc/{}", self.0.id()));
        let read = |name: &str| text(&own.join(name)).map_err(|e| format!("{name}: {e}"));
        Maps::parse(&read("uid_map")?, &read("gid_map")?)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends at the end of its input; only its entry in the process table is left.
        let _ = self.0.wait();
    }
}
