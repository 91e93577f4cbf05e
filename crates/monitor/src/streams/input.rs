use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use monitor::Stdin;
use rustix::io::{Errno, write};

/// A container's input. It takes no more from a client than it could hand on before.
#[derive(Debug)]
pub(crate) struct Input {
    fd: OwnedFd,
    waiting: Vec<u8>,
    kind: Kind,
    mode: Stdin,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    Terminal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// No more will come; what waits is still written.
    Closing,
    Done,
}

impl Input {
    pub(crate) fn pipe(fd: OwnedFd, mode: Stdin) -> Self {
        Self { fd, waiting: Vec::new(), kind: Kind::Pipe, mode, state: State::Open }
    }

    pub(crate) fn terminal(fd: OwnedFd, mode: Stdin) -> Self {
        Self { kind: Kind::Terminal, ..Self::pipe(fd, mode) }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.kind == Kind::Terminal
    }

    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        if self.state == State::Open {
            self.waiting = bytes;
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        while !self.waiting.is_empty() {
            match write(&self.fd, &self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length.min(self.waiting.len()))),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The container has closed its input.
                Err(_) => return self.give_up(),
            }
        }
        self.waiting = Vec::new();
        if self.state == State::Closing {
            self.state = State::Done;
        }
    }

    /// The reader is gone.
    pub(crate) fn give_up(&mut self) {
        self.waiting = Vec::new();
        self.state = State::Done;
    }

    /// A client's input has ended.
    pub(crate) fn client_left(&mut self) {
        if self.mode == Stdin::Once {
            self.close();
        }
    }

    /// No more input will come. A terminal has no end of file to signal: it stays open.
    pub(crate) fn close(&mut self) {
        if self.kind == Kind::Terminal || self.state != State::Open {
            return;
        }
        self.state = if self.is_full() { State::Closing } else { State::Done };
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
