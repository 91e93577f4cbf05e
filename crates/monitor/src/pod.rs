use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use durable::Guard;
use monitor::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::connection::Connection;
use crate::container::{Container, Spot, Stage};
use crate::note::note;
use crate::peer;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::streams::Interest;

/// More connections than a server ever has.
const MOST_CONNECTIONS: usize = 64;
/// How long no connection is accepted after descriptors have run out.
const REST: Duration = Duration::from_millis(200);
/// How long attached clients may take to read the remaining output of a container that has ended.
const DETACH_TIMEOUT: Duration = Duration::from_secs(5);

/// A pod as its monitor knows it.
pub(crate) struct Pod {
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) hierarchies: PathBuf,
    pub(crate) slot: Slot,
    pub(crate) listener: OwnedFd,
    pub(crate) signals: UnixStream,
    pub(crate) asked_to_end: Arc<AtomicBool>,
    pub(crate) shared: Option<Shared>,
    /// Locked for as long as this process lives: no other monitor is in this directory.
    pub(crate) _lock: Guard,
    pub(crate) connections: Vec<Connection>,
    pub(crate) containers: Vec<Container>,
    pub(crate) detaching: Vec<(u64, Instant)>,
    pub(crate) closed_until: Option<Instant>,
    pub(crate) last_key: u64,
}

/// A descriptor of this process, by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Signals,
    Listener,
    Connection(u64),
    Container(u64, Spot),
}

impl Pod {
    /// Runs until it is asked to end and no container runs.
    pub(crate) fn watch(mut self) -> Result<(), Errno> {
        while !self.is_done() {
            for (token, flags) in self.wait()? {
                self.ready(token, flags);
            }
            self.go_on();
        }
        self.leave();
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.asked_to_end.load(Ordering::Relaxed) && !self.containers.iter().any(Container::lives)
    }

    fn leave(&mut self) {
        for connection in &mut self.connections {
            connection.flush();
        }
        if let Some(shared) = self.shared.take() {
            shared.end();
        }
        // A process that finds the directory later connects to no monitor, and starts another one.
        let _ = std::fs::remove_file(self.dir.join(monitor::record::SOCKET));
        let _ = std::fs::remove_file(self.dir.join(monitor::record::MONITOR));
    }

    /// The only place where this process blocks.
    fn wait(&self) -> Result<Vec<(Token, PollFlags)>, Errno> {
        let now = Instant::now();
        let interests = self.interests(now);
        let mut fds: Vec<PollFd<'_>> =
            interests.iter().map(|(_, fd, wanted)| PollFd::from_borrowed_fd(*fd, *wanted)).collect();
        let left = self.due().map(|due| due.saturating_duration_since(now));
        match poll(&mut fds, left.map(timespec).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        }
        let ready = interests.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|((token, _, _), fd)| (*token, fd.revents())).collect())
    }

    fn interests(&self, now: Instant) -> Vec<Interest<'_, Token>> {
        let signals: BorrowedFd<'_> = self.signals.as_fd();
        let mut all = vec![(Token::Signals, signals, PollFlags::IN)];
        if self.closed_until.is_none_or(|until| until <= now) {
            all.push((Token::Listener, self.listener.as_fd(), PollFlags::IN));
        }
        for connection in &self.connections {
            all.push((Token::Connection(connection.key), connection.as_fd(), connection.wanted()));
        }
        for container in &self.containers {
            let spots = container.interests(now).into_iter();
            all.extend(spots.map(|(spot, fd, wanted)| (Token::Container(container.key, spot), fd, wanted)));
        }
        all
    }

    fn due(&self) -> Option<Instant> {
        let containers = self.containers.iter().filter_map(Container::due);
        let detaching = self.detaching.iter().map(|(_, until)| *until);
        containers.chain(detaching).chain(self.closed_until).min()
    }

    fn ready(&mut self, token: Token, flags: PollFlags) {
        match token {
            Token::Signals => self.children_changed(),
            Token::Listener => self.accept_all(),
            Token::Connection(key) => self.converse(key, flags),
            Token::Container(key, spot) => self.container_ready(key, spot, flags),
        }
    }

    fn container_ready(&mut self, key: u64, spot: Spot, flags: PollFlags) {
        let Some(container) = self.containers.iter_mut().find(|container| container.key == key) else {
            return;
        };
        match spot {
            Spot::Result => self.hear(key),
            Spot::Process => self.look_at(key),
            Spot::Console => container.take_console(),
            Spot::Stream(place) => container.streams.ready(place, flags),
        }
    }

    /// Handles timeouts: exits that can be reported, clients whose detach timeout has passed.
    fn go_on(&mut self) {
        let now = Instant::now();
        if self.closed_until.is_some_and(|until| until <= now) {
            self.closed_until = None;
        }
        let mut told = Vec::new();
        for container in &mut self.containers {
            if let Some(exited) = container.finish() {
                told.push(exited);
                if container.streams.has_clients() {
                    self.detaching.push((container.key, now + DETACH_TIMEOUT));
                }
            }
        }
        for exited in told {
            for connection in &mut self.connections {
                connection.event(Event::Exited(exited.clone()));
            }
        }
        self.detach_late_clients(now);
        self.connections.retain(|connection| !connection.is_gone());
    }

    fn detach_late_clients(&mut self, now: Instant) {
        let Self { containers, detaching, .. } = self;
        detaching.retain(|(key, until)| {
            let Some(container) = containers.iter_mut().find(|container| container.key == *key) else {
                return false;
            };
            if *until <= now {
                container.streams.drop_clients();
            }
            container.streams.has_clients()
        });
    }

    /// Accepts all waiting connections: a connected client gets every later event.
    fn accept_all(&mut self) {
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.accept(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    note(format_args!("cannot accept a connection: {errno}"));
                    self.closed_until = Some(Instant::now() + REST);
                    return;
                }
            }
        }
    }

    fn accept(&mut self, socket: OwnedFd) {
        if !peer::is_ours(&socket) {
            return note("another user's connection was refused");
        }
        if self.connections.len() >= MOST_CONNECTIONS {
            return note("there are too many connections");
        }
        let key = self.next_key();
        self.connections.push(Connection::new(key, socket));
    }

    pub(crate) fn next_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    pub(crate) fn connection(&mut self, key: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.key == key)
    }

    pub(crate) fn named(&mut self, name: &str) -> Option<&mut Container> {
        self.containers.iter_mut().find(|container| container.name == name)
    }

    pub(crate) fn is_starting(&self) -> bool {
        self.containers.iter().any(Container::is_starting)
    }

    /// Forgets the oldest container that has ended: its record stays on disk.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let oldest = self.containers.iter().position(|container| matches!(container.stage, Stage::Ended(_)));
        oldest.map(|place| self.containers.remove(place)).is_some()
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}
