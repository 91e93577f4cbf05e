use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};

use crate::log::{Lines, Stream};

/// Read at once.
const PIECE: usize = 16 * 1024;
/// A terminal that no process has open says so for as long as that lasts. It may be opened again.
const REST: Duration = Duration::from_millis(200);

/// One of a container's streams, as it comes in. The descriptor does not block.
#[derive(Debug)]
pub(crate) struct Output {
    fd: OwnedFd,
    pub(crate) lines: Lines,
    kind: Kind,
    ended: bool,
    /// Set while no process has the terminal open.
    rests_until: Option<Instant>,
    /// No process will open the terminal again.
    last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    Terminal,
}

impl Output {
    pub(crate) fn pipe(fd: OwnedFd, stream: Stream) -> Self {
        Self { fd, lines: Lines::new(stream), kind: Kind::Pipe, ended: false, rests_until: None, last: false }
    }

    pub(crate) fn terminal(fd: OwnedFd) -> Self {
        let lines = Lines::new(Stream::Stdout);
        Self { fd, lines, kind: Kind::Terminal, ended: false, rests_until: None, last: false }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.lines.stream()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.kind == Kind::Terminal
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| until <= now)
    }

    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// The container has ended: what is there now is the last.
    pub(crate) fn is_last(&mut self) {
        self.rests_until = None;
        self.last = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What is there now; `None` if that is nothing.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        self.rests_until = None;
        let mut bytes = vec![0; PIECE];
        match read(&self.fd, bytes.as_mut_slice()) {
            Ok(0) => self.ended = true,
            Ok(length) => {
                bytes.truncate(length);
                return Some(bytes);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::IO) if self.is_terminal() && !self.last => {
                self.rests_until = Some(Instant::now() + REST)
            }
            Err(_) => self.ended = true,
        }
        None
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
