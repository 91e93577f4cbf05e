use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use kernel::namespace::send_signal;
use monitor::{Attach, Reply, Request, StartRequest, StartedReply};
use rustix::event::PollFlags;
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::connection::Question;
use crate::container::{Asker, Container, Ground, Stage};
use crate::pod::Pod;
use crate::shared::Shared;
use crate::streams::Attached;

/// As many as can be listed in one packet.
const MOST_CONTAINERS: usize = 256;

/// The reply, or none yet.
type Answer = Result<Option<Reply>, String>;

impl Pod {
    /// A connection is readable or writable.
    pub(crate) fn converse(&mut self, key: u64, flags: PollFlags) {
        let Some(connection) = self.connection(key) else { return };
        if flags.contains(PollFlags::OUT) {
            connection.flush();
        }
        if !flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        let Some(Question { asked, descriptors }) = connection.next() else { return };
        let asker = Asker { connection: key, id: asked.id };
        let reply = match self.answer(asked.request, descriptors, asker) {
            Ok(None) => return,
            Ok(Some(reply)) => reply,
            Err(what) => Reply::Refused { what },
        };
        if let Some(connection) = self.connection(key) {
            connection.reply(asker.id, reply);
        }
    }

    fn answer(&mut self, request: Request, descriptors: Vec<OwnedFd>, asker: Asker) -> Answer {
        let done = |()| Some(Reply::Done);
        match request {
            Request::Start(start) => self.start(start, asker),
            Request::Adopt { container, dir, log: _ } => self.adopt(container, &dir),
            Request::Attach(attach) => self.attach(&attach, descriptors).map(done),
            Request::CloseStdin { container } => self.close_stdin(&container).map(done),
            Request::Resize { container, rows, cols } => self.resize(&container, rows, cols).map(done),
            Request::Reopen { container } => self.reopen(&container).map(done),
            Request::Signal { container, signal } => self.signal(&container, signal).map(done),
            Request::List => Ok(Some(Reply::Listed(self.containers.iter().map(Container::listed).collect()))),
            Request::PidNamespace => {
                Ok(Some(Reply::PidNamespace { pid: self.shared.as_ref().and_then(Shared::pid) }))
            }
            Request::Forget { container } => self.forget(&container).map(done),
            Request::End => self.end().map(done),
        }
    }

    fn start(&mut self, start: StartRequest, asker: Asker) -> Answer {
        self.has_room_for(&start.container, &start.dir)?;
        let key = self.next_key();
        let ground = Ground { program: &self.program, hierarchies: &self.hierarchies, slot: &mut self.slot };
        match Container::start(key, start, asker, ground) {
            Ok(container) => {
                self.containers.push(container);
                Ok(None)
            }
            Err(failed) => Ok(Some(Reply::Failed(*failed))),
        }
    }

    fn adopt(&mut self, name: String, dir: &Path) -> Answer {
        if self.named(&name).is_none() {
            self.has_room_for(&name, dir)?;
            let key = self.next_key();
            self.containers.push(Container::adopt(key, name.clone(), dir.to_owned(), &self.hierarchies)?);
        }
        let pid = self.named(&name).and_then(|container| container.listed().pid);
        Ok(Some(pid.map_or(Reply::Done, |pid| Reply::Started(StartedReply { container: name, pid }))))
    }

    /// Names are no part of a path; they are validated nevertheless.
    fn has_room_for(&mut self, name: &str, dir: &Path) -> Result<(), String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(format!("{name:?} is not a valid container name"));
        }
        if !dir.is_absolute() {
            return Err(format!("{} is not an absolute path", dir.display()));
        }
        if self.named(name).is_some() {
            return Err(format!("container {name} is there already"));
        }
        if self.containers.len() >= MOST_CONTAINERS && !self.forget_oldest() {
            return Err(format!("the pod has {MOST_CONTAINERS} containers already"));
        }
        Ok(())
    }

    fn living(&mut self, name: &str) -> Result<&mut Container, String> {
        let container = self.named(name).ok_or_else(|| format!("there is no container {name}"))?;
        if container.lives() { Ok(container) } else { Err(format!("container {name} has ended")) }
    }

    fn attach(&mut self, wanted: &Attach, descriptors: Vec<OwnedFd>) -> Result<(), String> {
        let container = self.living(&wanted.container)?;
        if matches!(container.stage, Stage::Starting(_)) {
            return Err(format!("container {} is being started", wanted.container));
        }
        let client = Attached::new(wanted, descriptors)?;
        container.streams.attach(client);
        Ok(())
    }

    fn close_stdin(&mut self, name: &str) -> Result<(), String> {
        self.living(name)?.streams.close_input();
        Ok(())
    }

    fn resize(&mut self, name: &str, rows: u16, cols: u16) -> Result<(), String> {
        let container = self.living(name)?;
        let terminal =
            container.streams.terminal().ok_or_else(|| format!("container {name} has no terminal"))?;
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(terminal, size).map_err(|errno| format!("cannot resize the terminal: {errno}"))
    }

    fn reopen(&mut self, name: &str) -> Result<(), String> {
        match &mut self.living(name)?.streams.log {
            Some(log) => log.reopen().map_err(|error| format!("cannot reopen the log of {name}: {error}")),
            None => Ok(()),
        }
    }

    fn signal(&mut self, name: &str, number: i32) -> Result<(), String> {
        let container = self.living(name)?;
        match &container.stage {
            Stage::Running(running) => send_signal(&running.pidfd, number)
                .map_err(|errno| format!("cannot signal container {name}: {errno}")),
            // The client that requested the start gets the failure.
            Stage::Starting(starting) if number == Signal::KILL.as_raw() => {
                starting.helper.kill();
                Ok(())
            }
            Stage::Starting(_) => Err(format!("container {name} is being started")),
            // It has ended; clients have not got the event yet.
            Stage::Draining(_) | Stage::Ended(_) => Ok(()),
        }
    }

    fn forget(&mut self, name: &str) -> Result<(), String> {
        match self.containers.iter().position(|container| container.name == name) {
            Some(place) if self.containers.get(place).is_some_and(Container::lives) => {
                Err(format!("container {name} lives"))
            }
            Some(place) => {
                self.containers.remove(place);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        if let Some(living) = self.containers.iter().find(|container| container.lives()) {
            return Err(format!("container {} lives", living.name));
        }
        self.asked_to_end.store(true, Ordering::Relaxed);
        Ok(())
    }
}
