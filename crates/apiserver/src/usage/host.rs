//! What the whole machine uses, as far as no cgroup counts it.

use std::fs;
use std::io;
use std::path::Path;

use cgroups::Counters;
use kubelet_api::TaskLimit;

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
    pub(super) tasks: Option<TaskLimit>,
    /// Nanoseconds of CPU time.
    cpu: u64,
    /// Bytes of anonymous memory.
    anonymous: u64,
    /// Bytes of page cache.
    file: u64,
    /// Bytes of page cache on the inactive LRU list.
    inactive_file: u64,
    /// Bytes in swap.
    swap: u64,
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
        let bytes = |name: &str| number(&memory, name, ':').unwrap_or(0).saturating_mul(1024);
        Ok(Self {
            booted: number(&stat, "btime", ' ').unwrap_or(0).saturating_mul(MILLIS),
            memory: bytes("MemTotal"),
            tasks: tasks(&text),
            cpu: busy(&stat),
            anonymous: bytes("AnonPages"),
            file: bytes("Cached").saturating_add(bytes("Buffers")).saturating_add(bytes("SwapCached")),
            inactive_file: bytes("Inactive(file)"),
            swap: bytes("SwapTotal").saturating_sub(bytes("SwapFree")),
            faults: number(&paging, "pgfault", ' '),
            major_faults: number(&paging, "pgmajfault", ' '),
        })
    }

    /// The counters of the root cgroup, with what it does not count. With cgroup v2 its memory in use is, as for a kubelet,
    /// anonymous memory and page cache: what the kernel itself takes is not in it.
    pub(super) fn completed(&self, mut counters: Counters) -> Counters {
        counters.cpu.get_or_insert(self.cpu);
        let memory = &mut counters.memory;
        let anonymous = *memory.rss.get_or_insert(self.anonymous);
        let file = *memory.cache.get_or_insert(self.file);
        memory.usage.get_or_insert(anonymous.saturating_add(file));
        memory.inactive_file.get_or_insert(self.inactive_file);
        memory.swap.get_or_insert(self.swap);
        memory.faults = memory.faults.or(self.faults);
        memory.major_faults = memory.major_faults.or(self.major_faults);
        counters
    }
}

/// What `loadavg` counts: `RUNNING/ALL` is its fourth word. Two settings limit it.
fn tasks(text: &dyn Fn(&str) -> io::Result<String>) -> Option<TaskLimit> {
    let count = text("loadavg").ok()?.split(['/', ' ']).nth(4)?.parse().ok()?;
    let limit = |name: &str| text(name).ok()?.trim().parse::<u64>().ok();
    let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"].into_iter().filter_map(limit);
    Some(TaskLimit { count, limit: limits.min()? })
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
                "MemTotal:  1000 kB\nMemFree: 400 kB\nBuffers: 20 kB\nCached: 300 kB\nSwapCached: 0 kB\n\
                 Inactive(file): 100 kB\nAnonPages: 50 kB\nSwapTotal: 90 kB\nSwapFree: 60 kB\n",
            ),
            ("vmstat", "pgfault 9\npgmajfault 2\n"),
            ("loadavg", "0.20 0.18 0.12 1/80 11206\n"),
            ("sys/kernel/pid_max", "32768\n"),
            ("sys/kernel/threads-max", "7000\n"),
        ] {
            fs::write(root.path().join("proc").join(name), text).unwrap();
        }
        let host = Host::read(root.path()).unwrap();
        (root, host)
    }

    #[test]
    fn a_machine_is_read_from_proc() {
        let (root, host) = host();
        assert_eq!((host.booted, host.memory), (1_700_000_000_000, 1000 << 10));
        assert_eq!(host.cpu, 160 * (NANOS / TICKS), "without idle time and waits for disks");
        assert_eq!(host.tasks, Some(TaskLimit { count: 80, limit: 7000 }), "the smaller limit");
        fs::write(root.path().join("proc/sys/kernel/pid_max"), "500\n").unwrap();
        assert_eq!(Host::read(root.path()).unwrap().tasks.unwrap().limit, 500);
        fs::remove_file(root.path().join("proc/sys/kernel/threads-max")).unwrap();
        assert_eq!(Host::read(root.path()).unwrap().tasks.unwrap().limit, 500);
    }

    /// All but free memory was in use: a working set that was too large by the memory of the kernel.
    #[test]
    fn memory_in_use_is_that_of_processes_and_page_cache() {
        let (_root, host) = host();
        let memory = Memory {
            rss: Some(40 << 10),
            cache: Some(310 << 10),
            inactive_file: Some(110 << 10),
            ..Memory::default()
        };
        let root = host.completed(Counters { memory, ..Counters::default() });
        assert_eq!((root.memory.usage, root.memory.working_set()), (Some(350 << 10), Some(240 << 10)));
        // Before Linux 5.12 the root of cgroup v2 has no `memory.stat`.
        let older = host.completed(Counters::default()).memory;
        assert_eq!((older.usage, older.working_set()), (Some(370 << 10), Some(270 << 10)));
        assert_eq!((older.rss, older.faults, older.swap), (Some(50 << 10), Some(9), Some(30 << 10)));
    }

    #[test]
    fn what_the_root_cgroup_counts_is_kept() {
        let (_root, host) = host();
        let memory = Memory { usage: Some(7), inactive_file: Some(1), swap: Some(2), ..Memory::default() };
        let counted = host.completed(Counters { cpu: Some(3), memory, ..Counters::default() });
        assert_eq!(
            (counted.cpu, counted.memory.working_set(), counted.memory.swap),
            (Some(3), Some(6), Some(2))
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = Host::read(root.path()).unwrap_err();
        assert!(error.to_string().contains("proc/stat"), "{error}");
    }
}
