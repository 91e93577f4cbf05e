//! The steps that the process itself takes, once it is in the container's PID namespace. The process that it is forked
//! from has one thread, so that ordinary code may run here.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use super::between::{Between, Done, at};
use super::report::{self, Step};
use super::{Streams, capable, filter, terminal};

/// The process that execs the program.
pub(super) struct Inside<'a>(pub(super) Between<'a>);

impl Inside<'_> {
    /// Execs the program, or reports why that failed.
    pub(super) fn become_it(self) {
        let report = self.0.report.as_fd();
        let told = |(step, errno)| report::tell_failed(report, step, errno);
        if let Err(failed) = self.begin() {
            return told(failed);
        }
        report::tell_ready(report);
        if !report::told_to_go(report) {
            return;
        }
        if let Err(failed) = self.filter_last() {
            return told(failed);
        }
        if let crate::Error::Program { errno, .. } = self.0.wanted.program.become_it() {
            told((Step::Program, errno));
        }
    }

    /// Without `no_new_privileges` a seccomp filter takes a capability: the filter is set, and the capability dropped,
    /// before the process waits for the parent.
    fn begin(&self) -> Done {
        setsid().map_err(at(Step::Session))?;
        let wanted = self.0.wanted;
        if let Streams::Terminal { .. } = wanted.streams {
            terminal::control().map_err(at(Step::Terminal))?;
        }
        self.die_with_maker().map_err(at(Step::Parent))?;
        match &wanted.limits.seccomp {
            Some(filter) if wanted.limits.filter_takes_power() => {
                filter::load(filter).map_err(at(Step::Seccomp))?;
                capable::set(wanted.capabilities).map_err(at(Step::Capabilities))
            }
            _ => Ok(()),
        }
    }

    /// With `no_new_privileges` the filter is set last, when hardly a call of our own remains to be filtered.
    fn filter_last(&self) -> Done {
        let limits = &self.0.wanted.limits;
        match &limits.seccomp {
            Some(filter) if !limits.filter_takes_power() => filter::load(filter).map_err(at(Step::Seccomp)),
            _ => Ok(()),
        }
    }

    /// If the parent is gone by then, no signal will come.
    fn die_with_maker(&self) -> Result<(), Errno> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut ends = [PollFd::new(&self.0.report, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let gone = ends.iter().any(|end| end.revents().contains(PollFlags::HUP));
        if gone { Err(Errno::SRCH) } else { Ok(()) }
    }
}
