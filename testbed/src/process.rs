//! A process by its ID and the tick it began at, so that a reused ID is never taken for it.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, for as long as this boot lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its ID.
    pub pid: i32,
    /// Clock ticks since boot at which it began.
    pub start: u64,
}

impl ProcessId {
    /// The process that has `pid` now, if one has.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start) = state_and_start(&stat)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start })
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Whether it still runs; a zombie does not.
    #[must_use]
    pub fn alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// The parent that has yet to collect it, while there is anything to collect.
    #[must_use]
    pub(crate) fn uncollected_by(self) -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let (_, start) = state_and_start(&stat)?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (start == self.start).then_some(parent)
    }

    /// Sends a signal to this process and to no other that has its ID by now. Says whether it was there.
    pub fn signal(self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        // The descriptor is taken before the identity is checked: from then on it means this process only.
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        self.alive() && pidfd_send_signal(&descriptor, signal).is_ok()
    }
}

/// The state and start time in a line of /proc/PID/stat. The name may hold blanks and parentheses.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat =
            format!("7 (a) R (b) S {} 4711 0", (1..=18).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(state_and_start(&stat), Some(('S', 4711)));
    }

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let own = ProcessId::own().expect("we run");
        assert!(own.alive());
        assert!(!ProcessId { start: own.start + 1, ..own }.alive());
    }

    #[test]
    fn a_signal_never_reaches_a_process_that_took_over_the_id() {
        let own = ProcessId::own().expect("we run");
        assert!(!ProcessId { start: own.start + 1, ..own }.signal(Signal::KILL));
    }
}
