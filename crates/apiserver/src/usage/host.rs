//! What the whole machine uses, as far as no cgroup counts it.

use std::fs;
use std::io;
use std::path::Path;

use cgroups::Counters;

/// Ticks of a second in `/proc/stat`.
const TICKS: u64 = 100;
const NANOS: u64 = 1_000_000_000;
const MILLIS: u64 = 1_000;

/// The machine as its kernel shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// When it was started: milliseconds since 1970.
    pub(super) booted: u64,
    /// All its memory in bytes.
    pub(super) memory: u64,
    /// How many processes and threads it has, and how many it can have.
    pub(super) processes: Option<(u64, u64)>,
    /// Nanoseconds of CPU time.
    cpu: u64,
    /// Bytes of memory in use, with the page cache.
    memory_used: u64,
    /// Bytes of page cache on the inactive LRU list.
    inactive_file: u64,
    /// Bytes of huge pages, used or not.
    huge_pages: u64,
    /// Bytes of anonymous memory.
    anonymous: u64,
    faults: Option<u64>,
    major_faults: Option<u64>,
}

impl Host {
    /// # Errors
    /// If a file of proc cannot be read.
    pub(super) fn read(host_root: &Path) -> io::Result<Self> {
        let proc = host_root.join("proc");
        let text = |name: &str| {
            let path = proc.join(name);
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
            };
            fs::read_to_string(&path).map_err(named)
        };
        let (stat, memory, paging) = (text("stat")?, text("meminfo")?, text("vmstat").unwrap_or_default());
        let kibibytes = |name: &str| number(&memory, name, ':').unwrap_or(0).saturating_mul(1024);
        let all = kibibytes("MemTotal");
        // RUNNING/ALL is the fourth word.
        let threads = text("loadavg").ok().and_then(|text| text.split(['/', ' ']).nth(4)?.parse().ok());
        let limit = |name: &str| text(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let limits = [limit("sys/kernel/pid_max"), limit("sys/kernel/threads-max")];
        let most = limits.into_iter().flatten().min();
        Ok(Self {
            booted: number(&stat, "btime", ' ').unwrap_or(0).saturating_mul(MILLIS),
            memory: all,
            processes: threads.zip(most),
            cpu: busy(&stat),
            memory_used: all.saturating_sub(kibibytes("MemFree")),
            inactive_file: kibibytes("Inactive(file)"),
            huge_pages: kibibytes("Hugetlb"),
            anonymous: kibibytes("AnonPages"),
            faults: number(&paging, "pgfault", ' '),
            major_faults: number(&paging, "pgmajfault", ' '),
        })
    }

    /// Bytes of huge pages that these counters of the root cgroup do not count. Where it does not count memory at all, what is
    /// read instead has them.
    pub(super) fn uncounted_huge_pages(&self, counters: &Counters) -> u64 {
        if counters.memory.usage.is_some() { self.huge_pages } else { 0 }
    }

    /// The counters of the root cgroup, with what it does not count: with cgroup v2 it has no memory.
    pub(super) fn completed(&self, mut counters: Counters) -> Counters {
        counters.cpu.get_or_insert(self.cpu);
        let memory = &mut counters.memory;
        memory.usage.get_or_insert(self.memory_used);
        memory.inactive_file.get_or_insert(self.inactive_file);
        memory.rss.get_or_insert(self.anonymous);
        memory.faults = memory.faults.or(self.faults);
        memory.major_faults = memory.major_faults.or(self.major_faults);
        counters
    }
}

/// The number in the line that begins with `name` and `separator`.
fn number(text: &str, name: &str, separator: char) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(separator))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Nanoseconds in which a CPU was not idle: user, nice, system, interrupts and what a hypervisor took.
fn busy(stat: &str) -> u64 {
    let words = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = words.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let is_busy = |column: usize| ![3, 4].contains(&column);
    let sum = ticks
        .iter()
        .take(8)
        .enumerate()
        .filter(|(column, _)| is_busy(*column))
        .map(|(_, ticks)| ticks)
        .sum::<u64>();
    sum.saturating_mul(NANOS / TICKS)
}

#[cfg(test)]
mod tests {
    use cgroups::Memory;

    use super::*;

    fn host() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        for (name, text) in [
            ("stat", "cpu  100 0 50 900 30 5 5 0 0 0\ncpu0 1 1 1 1\nbtime 1700000000\n"),
            (
                "meminfo",
                "MemTotal:  1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nAnonPages: 50 kB\nHugetlb: 200 kB\n",
            ),
            ("vmstat", "pgfault 9\npgmajfault 2\n"),
            ("loadavg", "0.20 0.18 0.12 1/80 11206\n"),
            ("sys/kernel/pid_max", "32768\n"),
            ("sys/kernel/threads-max", "30000\n"),
        ] {
            fs::write(root.path().join("proc").join(name), text).unwrap();
        }
        let host = Host::read(root.path()).unwrap();
        (root, host)
    }

    #[test]
    fn a_machine_is_read_from_proc() {
        let (_root, host) = host();
        assert_eq!(
            (host.booted, host.memory, host.processes),
            (1_700_000_000_000, 1000 << 10, Some((80, 30_000)))
        );
        assert_eq!(host.cpu, 160 * (NANOS / TICKS), "without idle time and waits for disks");
    }

    #[test]
    fn what_the_root_cgroup_counts_is_kept() {
        let (_root, host) = host();
        let empty = host.completed(Counters::default());
        assert_eq!((empty.memory.usage, empty.memory.working_set()), (Some(600 << 10), Some(500 << 10)));
        assert_eq!((empty.memory.faults, empty.memory.rss), (Some(9), Some(50 << 10)));
        let memory = Memory { usage: Some(7), inactive_file: Some(1), ..Memory::default() };
        let counters = Counters { cpu: Some(3), memory, ..Counters::default() };
        let huge_pages = [&counters, &Counters::default()].map(|of| host.uncounted_huge_pages(of));
        assert_eq!(huge_pages, [200 << 10, 0]);
        let counted = host.completed(counters);
        assert_eq!((counted.cpu, counted.memory.working_set()), (Some(3), Some(6)));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = Host::read(root.path()).unwrap_err();
        assert!(error.to_string().contains("proc/stat"), "{error}");
    }
}
