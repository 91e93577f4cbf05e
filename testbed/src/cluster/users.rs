//! Testbeds that end with their users. A user holds a shared lock on a file, which the kernel releases when the user
//! dies in whatever way; the supervisor tries for the exclusive lock.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::record::{Lifetime, Record};

/// The supervisor's view of the users.
pub(crate) struct Users {
    file: Option<File>,
    linger: Duration,
    alone_since: Option<Instant>,
    asked: Instant,
}

/// Asking costs two system calls; users come and go in seconds.
const EVERY: Duration = Duration::from_millis(250);

impl Users {
    pub(crate) fn of(record: &Record) -> Self {
        let (file, linger) = match record.lifetime {
            Lifetime::Detached => (None, 0),
            Lifetime::Users { linger } => (File::open(record.places.users()).ok(), linger),
        };
        let linger = Duration::from_secs(linger);
        Self { file, linger, alone_since: None, asked: Instant::now() }
    }

    /// Whether the testbed has had no user for as long as it lingers. From then on it belongs to the supervisor alone:
    /// the lock stays, and a later user starts another testbed.
    pub(crate) fn gone(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        if self.asked.elapsed() < EVERY {
            return false;
        }
        self.asked = Instant::now();
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
            self.alone_since = None;
            return false;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.linger {
            return true;
        }
        let _ = flock(file, FlockOperation::Unlock);
        false
    }
}
