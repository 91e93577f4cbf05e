//! A connection to systemd's socket.
//!
//! On this socket systemd sends every signal to every client, so that the end of a job arrives without a subscription.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use super::message::{self, Body, Call, FIXED, Received};

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
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    serial: u32,
    /// Ends of jobs that came before the answer of the call that made them.
    ended: Vec<Ended>,
    until: Instant,
}

struct Ended {
    job: String,
    result: String,
}

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let until = Instant::now() + PATIENCE;
        let mut connection = Self { stream: BufReader::new(stream), serial: 0, ended: Vec::new(), until };
        connection.authenticate()?;
        Ok(connection)
    }

    /// systemd knows the caller by the socket; the user ID is only repeated.
    ///
    /// The end of the authentication is sent with its beginning, and nothing before the answer: systemd does not look at a
    /// message that it has read together with `BEGIN` until more arrives.
    fn authenticate(&mut self) -> Result<()> {
        let digits = geteuid().as_raw().to_string();
        let hex: String = digits.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n").as_bytes())?;
        let mut line = String::new();
        self.stream.by_ref().take(1024).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match line.starts_with("OK ") {
            true => Ok(()),
            false => Err(Error::Protocol("it does not accept this user")),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Calls a method of the manager, and returns the texts of the answer.
    pub(super) fn call(&mut self, method: &str, body: &Body) -> Result<Vec<String>> {
        self.serial += 1;
        let call =
            Call { serial: self.serial, path: OBJECT, destination: NAME, interface: MANAGER, method, body };
        self.send(&call.message())?;
        loop {
            match self.receive()? {
                Received::Returned { serial, texts } if serial == self.serial => return Ok(texts),
                Received::Refused { serial, name, words } if serial == self.serial => {
                    return Err(Error::Refused { name, words });
                }
                other => self.note(other),
            }
        }
    }

    /// Calls a method that queues a job, and waits for the end of the job.
    pub(super) fn job(&mut self, method: &str, body: &Body) -> Result<()> {
        let job = self.call(method, body)?.into_iter().next();
        let job = job.ok_or(Error::Protocol("it does not name the job"))?;
        loop {
            if let Some(ended) = self.ended.iter().find(|ended| ended.job == job) {
                let result = ended.result.clone();
                return if result == DONE { Ok(()) } else { Err(Error::Job { result }) };
            }
            let message = self.receive()?;
            self.note(message);
        }
    }

    fn note(&mut self, message: Received) {
        // The texts are the job's path, the unit's name and the result.
        if let Received::Signal { member, texts } = message
            && member == JOB_REMOVED
            && let [job, _, result] = texts.as_slice()
        {
            self.ended.push(Ended { job: job.clone(), result: result.clone() });
        }
    }

    fn receive(&mut self) -> Result<Received> {
        if Instant::now() > self.until {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        let mut fixed = [0; FIXED];
        self.stream.read_exact(&mut fixed)?;
        let rest = message::rest(&fixed).ok_or(Error::Protocol("a message is too long"))?;
        let mut bytes = fixed.to_vec();
        bytes.resize(FIXED + rest, 0);
        if let Some(rest) = bytes.get_mut(FIXED..) {
            self.stream.read_exact(rest)?;
        }
        message::read(&bytes).ok_or(Error::Protocol("a message is not one of D-Bus"))
    }
}
