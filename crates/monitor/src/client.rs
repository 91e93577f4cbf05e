//! A connection to a pod's monitor.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::message::{Asked, Told};
use crate::packet::{self, Received, Sent};
use crate::record::SOCKET;
use crate::{Error, Event, Reply, Request, Result};

/// A container's start takes as long as its mounts take.
const PATIENCE: Duration = Duration::from_secs(120);
/// More events than a monitor ever sends at once.
const MOST_EVENTS: usize = 4096;

/// A connection to a pod's monitor. The monitor sends every container's exit on it; a client that does not read is
/// disconnected.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
    patience: Duration,
    last: u64,
    events: VecDeque<Event>,
}

impl Client {
    /// To the monitor of the pod whose directory this is.
    pub fn connect(dir: &Path) -> Result<Self> {
        let path = dir.join(SOCKET);
        let failed = |errno: Errno| Error::NoMonitor { path: path.clone(), cause: errno.into() };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
        let address = SocketAddrUnix::new(&path).map_err(failed)?;
        connect(&socket, &address).map_err(failed)?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        Ok(Self { socket, path, patience: PATIENCE, last: 0, events: VecDeque::new() })
    }

    /// Sets the timeout for replies.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sends a request and waits for the reply. The descriptors are those that the request names; they stay the
    /// caller's own. Events that arrive meanwhile are kept for [`Client::try_next`].
    pub fn call(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Reply> {
        let deadline = Instant::now() + self.patience;
        self.last += 1;
        let asked = Asked { id: self.last, request: request.clone() };
        let bytes = serde_json::to_vec(&asked).map_err(|error| Error::Packet { why: error.to_string() })?;
        while packet::send(&self.socket, &bytes, descriptors).map_err(|error| self.or_gone(error))?
            == Sent::Not
        {
            self.wait(PollFlags::OUT, deadline)?;
        }
        loop {
            match self.receive()? {
                // A late reply to an earlier request whose caller has timed out.
                Some(Told::Reply { id, reply }) if id == asked.id || id == 0 => return Ok(reply),
                Some(Told::Reply { .. }) => {}
                Some(Told::Event(event)) => self.keep(event)?,
                None => self.wait(PollFlags::IN, deadline)?,
            }
        }
    }

    /// The next event, without waiting. [`Error::Gone`] says that the monitor has ended.
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            match self.receive()? {
                Some(Told::Event(event)) => return Ok(Some(event)),
                Some(Told::Reply { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    /// Waits for the next event, at most this long.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>> {
        let deadline = Instant::now() + time;
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            match self.wait(PollFlags::IN, deadline) {
                Ok(()) => {}
                Err(Error::Silent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, event: Event) -> Result<()> {
        if self.events.len() >= MOST_EVENTS {
            return Err(Error::Packet { why: "too many events wait to be taken".to_owned() });
        }
        self.events.push_back(event);
        Ok(())
    }

    fn receive(&self) -> Result<Option<Told>> {
        match packet::receive(&self.socket).map_err(|error| self.or_gone(error))? {
            Received::Nothing => Ok(None),
            Received::End => Err(Error::Gone { path: self.path.clone() }),
            Received::Oversized => Err(Error::Packet { why: "it is too large".to_owned() }),
            Received::Packet(packet) => serde_json::from_slice(&packet.bytes)
                .map(Some)
                .map_err(|error| Error::Packet { why: error.to_string() }),
        }
    }

    fn wait(&self, wanted: PollFlags, deadline: Instant) -> Result<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let time = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            match poll(&mut [PollFd::new(&self.socket, wanted)], Some(&time)) {
                Ok(0) => return Err(Error::Silent { path: self.path.clone(), waited: self.patience }),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Socket { what: "wait for", cause: errno.into() }),
            }
        }
    }

    fn or_gone(&self, error: Error) -> Error {
        use std::io::ErrorKind;
        match &error {
            Error::Socket { cause, .. }
                if matches!(
                    cause.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected
                ) =>
            {
                Error::Gone { path: self.path.clone() }
            }
            _ => error,
        }
    }
}

/// Readable when there is something for [`Client::try_next`].
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
