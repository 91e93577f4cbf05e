//! Processes that have ended: helpers, containers, and their orphans.

use std::io::Read;
use std::os::fd::AsFd;

use monitor::{Ending, Reply, StartedReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, wait, waitid, waitpid};

use crate::container::{Container, Outcome, Parent, Stage, of_id_status, of_status};
use crate::pod::Pod;

impl Pod {
    /// SIGCHLD: a child has ended; which ones is found by waiting for each.
    pub(crate) fn children_changed(&mut self) {
        let mut bytes = [0; 64];
        while matches!((&self.signals).read(&mut bytes), Ok(length) if length == bytes.len()) {}
        let keys: Vec<u64> = self.containers.iter().map(|container| container.key).collect();
        for key in keys {
            self.reap_helper(key);
            self.look_at(key);
        }
        self.reap_others();
    }

    fn reap_helper(&mut self, key: u64) {
        let Some(container) = self.by_key(key) else { return };
        match &mut container.stage {
            Stage::Starting(starting) => {
                if let Some(status) = ended(starting.helper.pid) {
                    starting.helper.ended(status);
                    self.hear(key);
                }
            }
            Stage::Running(running) => running.helper = running.helper.filter(|pid| ended(*pid).is_none()),
            _ => {}
        }
    }

    /// Reads the helper's report on its container.
    pub(crate) fn hear(&mut self, key: u64) {
        let Some(container) = self.by_key(key) else { return };
        let Stage::Starting(starting) = &mut container.stage else { return };
        let (asker, outcome) = (starting.asker, starting.helper.outcome());
        let (pid, started) = match outcome {
            None => return,
            Some(Outcome::Started { pid, user }) => (pid, container.has_started(pid, user)),
            Some(Outcome::Failed { what, hint, reason }) => {
                (0, Err(Box::new(container.failure(what, hint, reason))))
            }
        };
        let name = container.name.clone();
        let reply = match started {
            Ok(()) => Reply::Started(StartedReply { container: name, pid }),
            Err(failed) => {
                self.leave_out(key);
                Reply::Failed(*failed)
            }
        };
        if let Some(connection) = self.connection(asker.connection) {
            connection.reply(asker.id, reply);
        }
        // It may have ended before its PID was known; so may other processes, whose reaping had to wait for this.
        self.look_at(key);
        self.reap_others();
    }

    fn leave_out(&mut self, key: u64) {
        if let Some(place) = self.containers.iter().position(|container| container.key == key) {
            self.containers.remove(place).has_failed();
        }
    }

    /// Checks whether a container's first process has ended, and how.
    pub(crate) fn look_at(&mut self, key: u64) {
        let Some(container) = self.by_key(key) else { return };
        let Stage::Running(running) = &container.stage else { return };
        if !is_readable(running) {
            return;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let ending = match running.parent {
            Parent::Another => Some(Ending::Lost),
            Parent::Us => match waitid(WaitId::PidFd(running.pidfd.as_fd()), options) {
                Ok(status) => status.map(|status| of_id_status(&status)),
                // Until its helper is gone it may be the helper's child; then it is reparented to this process.
                Err(Errno::CHILD) if running.helper.is_none() => Some(Ending::Lost),
                Err(_) => None,
            },
        };
        if let Some(ending) = ending {
            container.process_ended(ending);
        }
    }

    /// Reaps orphaned children that containers have left. While a container is being started, its first process is not
    /// known yet, and must not be reaped as an orphan.
    fn reap_others(&mut self) {
        while !self.is_starting() {
            let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) else { return };
            // It has ended since the last check.
            let known = self.containers.iter_mut().find(|container| container.child() == Some(pid));
            if let Some(container) = known {
                container.process_ended(of_status(status));
            } else if self.shared.as_ref().is_some_and(|shared| shared.is(pid)) {
                self.shared = None;
            }
        }
    }

    pub(crate) fn by_key(&mut self, key: u64) -> Option<&mut Container> {
        self.containers.iter_mut().find(|container| container.key == key)
    }
}

fn ended(pid: Pid) -> Option<WaitStatus> {
    waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten().map(|(_, status)| status)
}

fn is_readable(running: &crate::container::Running) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&running.pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}
