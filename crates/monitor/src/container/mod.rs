//! A container, from the request to start it to its end.

mod adopt;
mod end;
mod helper;
mod start;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use durable::Reserved;
use monitor::{Ending, Exit, Listed, Stdin};
use rustix::event::PollFlags;
use rustix::process::Pid;

pub(crate) use end::{of_id_status, of_status};
pub(crate) use helper::Outcome;
pub(crate) use start::{Asker, Ground};

use crate::console::Console;
use crate::oom::Kills;
use crate::streams::{Input, Interest, Place, Streams};

/// A container of this pod.
pub(crate) struct Container {
    pub(crate) key: u64,
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) stage: Stage,
    pub(crate) streams: Streams,
    pub(crate) console: Option<Console>,
    pub(crate) stdin: Stdin,
    memory: Memory,
    exit_record: Option<Reserved>,
}

/// Its cgroup, and its OOM kills before the start.
#[derive(Default)]
struct Memory {
    hierarchies: PathBuf,
    cgroup: Option<PathBuf>,
    kills_before: Kills,
    /// Whether the kernel had killed something of it when its first process ended.
    ran_out: bool,
}

/// The stage of a container.
pub(crate) enum Stage {
    Starting(Box<start::Starting>),
    Running(Running),
    Draining(Draining),
    Ended(Exit),
}

pub(crate) struct Running {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// While it is there, the container's first process may be its child and not ours yet.
    pub(crate) helper: Option<Pid>,
    pub(crate) parent: Parent,
}

/// Which process reaps a container's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// This process.
    Us,
    /// Another one, which does not report the exit status: the container was adopted.
    Another,
}

/// A container that has ended, and whose output may not have been read to its end.
pub(crate) struct Draining {
    pub(crate) pid: Pid,
    pub(crate) ending: Ending,
    pub(crate) finished_at: i64,
    pub(crate) until: Instant,
}

/// One descriptor of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    Result,
    Process,
    Console,
    Stream(Place),
}

impl Container {
    pub(crate) fn interests(&self, now: Instant) -> Vec<Interest<'_, Spot>> {
        let mut all = Vec::new();
        match &self.stage {
            Stage::Starting(starting) => {
                all.extend(starting.helper.result().map(|fd| (Spot::Result, fd, PollFlags::IN)));
            }
            Stage::Running(running) if running.helper.is_none() => {
                all.push((Spot::Process, running.pidfd.as_fd(), PollFlags::IN));
            }
            _ => {}
        }
        all.extend(self.console.as_ref().map(|console| (Spot::Console, console.as_fd(), PollFlags::IN)));
        let streams = self.streams.interests(now).into_iter();
        all.extend(streams.map(|(place, fd, wanted)| (Spot::Stream(place), fd, wanted)));
        all
    }

    /// The next timeout.
    pub(crate) fn due(&self) -> Option<Instant> {
        let draining = match &self.stage {
            Stage::Draining(draining) => Some(draining.until),
            _ => None,
        };
        [draining, self.streams.due()].into_iter().flatten().min()
    }

    /// Takes the terminal that the engine has made, if it is there.
    pub(crate) fn take_console(&mut self) {
        let Some(terminal) = self.console.as_mut().and_then(Console::take) else { return };
        self.console = None;
        let input = match self.stdin {
            Stdin::None => None,
            mode => rustix::io::fcntl_dupfd_cloexec(&terminal, 0).ok().map(|fd| Input::terminal(fd, mode)),
        };
        if rustix::io::ioctl_fionbio(&terminal, true).is_ok() {
            self.streams.set_terminal(terminal, input);
        }
    }

    pub(crate) fn lives(&self) -> bool {
        !matches!(self.stage, Stage::Ended(_))
    }

    pub(crate) fn is_starting(&self) -> bool {
        match &self.stage {
            Stage::Starting(_) => true,
            Stage::Running(running) => running.helper.is_some(),
            _ => false,
        }
    }

    /// Its first process, if it was started by this monitor and has not ended.
    pub(crate) fn child(&self) -> Option<Pid> {
        match &self.stage {
            Stage::Running(running) if running.parent == Parent::Us => Some(running.pid),
            _ => None,
        }
    }

    pub(crate) fn listed(&self) -> Listed {
        let (pid, exit) = match &self.stage {
            Stage::Starting(_) => (None, None),
            Stage::Running(running) => (Some(running.pid), None),
            Stage::Draining(draining) => (Some(draining.pid), None),
            // A list of them all must fit into one packet, words would not.
            Stage::Ended(exit) => (None, Some(Exit { message: None, ..exit.clone() })),
        };
        Listed {
            container: self.name.clone(),
            pid: pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()),
            running: self.lives(),
            exit,
        }
    }
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
