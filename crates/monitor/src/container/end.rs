use std::time::{Duration, Instant};

use monitor::{Ending, Exit, Exited, record};
use rustix::process::{WaitIdStatus, WaitStatus};

use super::{Container, Draining, Stage, now};
use crate::note::note;
use crate::oom::Kills;

/// How long after the end of its first process a container's streams may stay open: an orphan of the container may
/// keep them open for ever.
const GRACE: Duration = Duration::from_millis(500);
/// A longer message is cut, so that the record fits into the preallocated file.
const LONGEST: usize = 1024;

impl Container {
    /// Its first process has ended. Its output is still to be read.
    pub(crate) fn process_ended(&mut self, ending: Ending) {
        let Stage::Running(running) = &self.stage else { return };
        let pid = running.pid;
        // Its cgroup may be removed at any time now.
        self.memory.ran_out = self.was_out_of_memory(ending);
        self.stage =
            Stage::Draining(Draining { pid, ending, finished_at: now(), until: Instant::now() + GRACE });
        self.take_console();
        self.streams.drain();
    }

    /// If all output is read, or the drain timeout has passed: records how it ended, and returns the event for the
    /// clients.
    pub(crate) fn finish(&mut self) -> Option<Exited> {
        let Stage::Draining(draining) = &self.stage else { return None };
        if !self.streams.is_drained() && Instant::now() < draining.until {
            return None;
        }
        let (ending, finished_at) = (draining.ending, draining.finished_at);
        self.streams.close();
        self.console = None;
        let mut exit = Exit {
            ending,
            oom: self.memory.ran_out || self.was_out_of_memory(ending),
            finished_at,
            message: self.complaint(ending),
        };
        self.record(&mut exit);
        self.stage = Stage::Ended(exit.clone());
        self.streams.log = None;
        Some(Exited { container: self.name.clone(), exit })
    }

    fn was_out_of_memory(&self, ending: Ending) -> bool {
        let memory = &self.memory;
        let Some(cgroup) = &memory.cgroup else { return false };
        Kills::read(&memory.hierarchies, cgroup).are_more_than(memory.kills_before, ending)
    }

    fn complaint(&self, ending: Ending) -> Option<String> {
        if ending == Ending::Lost {
            return Some(
                "exit status lost: the monitor that started the container died before the container ended"
                    .to_owned(),
            );
        }
        let mut words = self.streams.log.as_ref()?.complaint()?;
        let end = (0..=LONGEST.min(words.len())).rev().find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or(0));
        Some(words)
    }

    /// The exit is on disk before any client gets it. If it cannot be written, the event says so.
    fn record(&mut self, exit: &mut Exit) {
        let bytes = serde_json::to_vec(exit).unwrap_or_default();
        let written = match self.exit_record.take() {
            Some(space) => space.write(&bytes),
            None => durable::write(&self.dir.join(record::EXIT), &bytes),
        };
        if let Err(error) = written {
            note(format_args!("container {}: {error}", self.name));
            exit.message = Some(format!("its end was not recorded: {error}"));
        }
    }
}

pub(crate) fn of_status(status: WaitStatus) -> Ending {
    ending(status.exit_status(), status.terminating_signal())
}

pub(crate) fn of_id_status(status: &WaitIdStatus) -> Ending {
    ending(status.exit_status(), status.terminating_signal())
}

fn ending(code: Option<i32>, signal: Option<i32>) -> Ending {
    match (code, signal) {
        (Some(code), _) => Ending::Code(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Lost,
    }
}
