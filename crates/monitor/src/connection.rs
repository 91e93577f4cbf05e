use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use monitor::message::{Asked, Told};
use monitor::packet::{self, Received, Sent};
use monitor::{Event, Reply};
use rustix::event::PollFlags;

/// A client with more than this many unread messages is disconnected; it can ask for the list when it connects again.
const MOST: usize = 1024;

/// A client that is connected to the monitor.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) key: u64,
    socket: OwnedFd,
    waiting: VecDeque<Vec<u8>>,
    gone: bool,
}

/// A request with its descriptors.
pub(crate) struct Question {
    pub(crate) asked: Asked,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Connection {
    pub(crate) fn new(key: u64, socket: OwnedFd) -> Self {
        Self { key, socket, waiting: VecDeque::new(), gone: false }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn wanted(&self) -> PollFlags {
        if self.waiting.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// The next request. A malformed one is answered right here.
    pub(crate) fn next(&mut self) -> Option<Question> {
        match packet::receive(&self.socket) {
            Ok(Received::Nothing) => None,
            Ok(Received::Packet(packet)) => match serde_json::from_slice(&packet.bytes) {
                Ok(asked) => Some(Question { asked, descriptors: packet.descriptors }),
                Err(error) => self.refuse(format!("the packet is not a valid request: {error}")),
            },
            Ok(Received::Oversized) => self.refuse("the packet is too large".to_owned()),
            Ok(Received::End) | Err(_) => {
                self.gone = true;
                None
            }
        }
    }

    fn refuse(&mut self, what: String) -> Option<Question> {
        self.reply(0, Reply::Refused { what });
        None
    }

    pub(crate) fn reply(&mut self, id: u64, reply: Reply) {
        self.tell(&Told::Reply { id, reply });
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.tell(&Told::Event(event));
    }

    fn tell(&mut self, told: &Told) {
        match serde_json::to_vec(told) {
            Ok(bytes) => self.waiting.push_back(bytes),
            Err(_) => self.gone = true,
        }
        self.flush();
        self.gone |= self.waiting.len() > MOST;
    }

    pub(crate) fn flush(&mut self) {
        while let Some(next) = self.waiting.front() {
            match packet::send(&self.socket, next, &[]) {
                Ok(Sent::All) => drop(self.waiting.pop_front()),
                Ok(Sent::Not) => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
