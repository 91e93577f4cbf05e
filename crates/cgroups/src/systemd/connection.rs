//! A connection to systemd's socket.
//!
//! On this socket systemd sends every signal to every client, so that the end of a job arrives without a subscription.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use dbus::{Body, Call};

const OBJECT: &str = "/org/freedesktop/systemd1";
const NAME: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const JOB_REMOVED: &str = "JobRemoved";
const DONE: &str = "done";
/// How long systemd may take: it answers no call while it reads all units anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why systemd has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be made, or was lost.
    #[error("no connection to systemd: {0}")]
    Connection(#[from] io::Error),
    /// Something else than systemd answers.
    #[error("what answers is not systemd: {0}")]
    Protocol(&'static str),
    /// systemd refused the call.
    #[error("{words} ({name})")]
    Refused {
        /// The name of the error.
        name: String,
        /// What systemd says.
        words: String,
    },
    /// The job has not come to its end as it should.
    #[error("its job ended with {result:?}")]
    Job {
        /// systemd's word for the end.
        result: String,
    },
}

impl From<dbus::Error> for Error {
    fn from(error: dbus::Error) -> Self {
        match error {
            dbus::Error::Connection(cause) => Self::Connection(cause),
            dbus::Error::Protocol(cause) => Self::Protocol(cause),
            dbus::Error::Refused { name, words } => Self::Refused { name, words },
        }
    }
}

impl Error {
    /// Whether systemd refused the call with this error.
    pub(super) fn is_named(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { name, .. } if name == wanted)
    }

    /// Whether another try may get an answer.
    pub(super) fn is_lost_connection(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
        let lost = [BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof];
        matches!(self, Self::Connection(cause) if lost.contains(&cause.kind()))
    }
}

type Result<T> = std::result::Result<T, Error>;

/// A connection that has one call open at a time.
pub(super) struct Connection(dbus::Connection);

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Self> {
        Ok(Self(dbus::Connection::private(socket, PATIENCE)?))
    }

    /// Calls a method of the manager, and returns the texts of the answer.
    pub(super) fn call(&mut self, method: &str, body: &Body) -> Result<Vec<String>> {
        let call = Call { path: OBJECT, destination: NAME, interface: MANAGER, method, body };
        Ok(self.0.call(&call)?.texts())
    }

    /// Calls a method that queues a job, and waits for the end of the job.
    pub(super) fn job(&mut self, method: &str, body: &Body) -> Result<()> {
        let job = self.call(method, body)?.into_iter().next();
        let job = job.ok_or(Error::Protocol("it does not name the job"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let signal = self.0.next_signal(left)?.ok_or(io::Error::from(io::ErrorKind::TimedOut))?;
            // The texts are the job's path, the unit's name and the result.
            if signal.member == JOB_REMOVED
                && let [ended, _, result] = signal.body.texts().as_slice()
                && *ended == job
            {
                return if result == DONE { Ok(()) } else { Err(Error::Job { result: result.clone() }) };
            }
        }
    }
}
