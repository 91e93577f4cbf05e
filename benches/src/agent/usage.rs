//! Memory and CPU time of the processes that make a node.

use std::collections::BTreeMap;
use std::fs;

use crate::memory;

/// What serves pods on a node, by the name of its program; etcd, the API server and the pods' own processes do not.
const SERVERS: &[&str] = &[
    "kubelet",
    "wardlet",
    "wardlet-monitor",
    "wardlet-container",
    "containerd",
    "containerd-shim-runc-v2",
    "pause",
];

/// The processes that serve the pods of a testbed.
pub(super) fn servers(supervisor: u32) -> Vec<u32> {
    let serves = |pid: &u32| {
        memory::executable(*pid).is_some_and(|path| SERVERS.iter().any(|name| path.ends_with(name)))
            && memory::is_inside(*pid, supervisor)
    };
    memory::pids().into_iter().filter(serves).collect()
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// Each page counted by its share.
    pub(super) proportional: f64,
    /// Each page counted in full for each process.
    pub(super) resident: f64,
}

/// The memory of these processes. One that has ended meanwhile has none.
pub(super) fn memory(pids: &[u32]) -> Memory {
    let texts = pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
    let (mut proportional, mut resident) = (0, 0);
    for text in texts {
        proportional += memory::field(&text, "Pss:").unwrap_or(0);
        resident += memory::field(&text, "Rss:").unwrap_or(0);
    }
    let bytes = |kilobytes: u64| memory::megabytes(kilobytes) * 1000.0 * 1024.0;
    Memory { proportional: bytes(proportional), resident: bytes(resident) }
}

/// Clock ticks that each process has used so far.
pub(super) type Ticks = BTreeMap<u32, u64>;

pub(super) fn ticks(pids: &[u32]) -> Ticks {
    let of = |pid: &u32| Some((*pid, ticks_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    pids.iter().filter_map(of).collect()
}

/// The seconds of CPU time between two readings; a process that is in one of them only is left out.
pub(super) fn seconds(before: &Ticks, after: &Ticks) -> f64 {
    let used = after.iter().filter_map(|(pid, ticks)| Some(ticks.saturating_sub(*before.get(pid)?)));
    let used = u32::try_from(used.sum::<u64>()).unwrap_or(u32::MAX);
    let rate = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
    f64::from(used) / f64::from(rate)
}

/// User and system time. The program's name, in parentheses, may have blanks.
fn ticks_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 100 0 0";
        assert_eq!(ticks_in(stat), Some(200));
        assert_eq!(ticks_in("7 (x"), None);
        let own = ticks(&[std::process::id()]);
        assert_eq!(own.len(), 1);
    }

    #[test]
    fn only_processes_of_both_readings_count() {
        let rate = rustix::param::clock_ticks_per_second();
        let before = Ticks::from([(1, 0), (2, rate)]);
        let after = Ticks::from([(1, 2 * rate), (3, 900 * rate)]);
        assert_eq!(seconds(&before, &after), 2.0);
    }

    #[test]
    fn this_process_has_memory_and_what_it_shares_counts_less() {
        let own = memory(&[std::process::id()]);
        assert!(own.proportional > 100_000.0 && own.resident >= own.proportional, "{own:?}");
    }
}
