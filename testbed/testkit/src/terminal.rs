//! A terminal that a test types into and reads from.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The two ends of a pseudoterminal.
#[derive(Debug)]
pub struct Terminal {
    /// The test's end.
    pub near: File,
    /// What the program has as its terminal.
    pub far: OwnedFd,
}

impl Terminal {
    /// # Panics
    /// Where the system has no more pseudoterminals.
    #[must_use]
    pub fn open() -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        let far = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        Self { near: File::from(near), far: far.into() }
    }
}
