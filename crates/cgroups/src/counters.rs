//! What the kernel has counted for a control group, from its files in whichever version they are.

use std::collections::BTreeMap;
use std::fs;

use crate::find::{Hierarchies, Hierarchy, Kind};
use crate::group::{Group, Place};

/// Ticks of a second in the files of version 1: fixed in the kernel's interface.
const TICKS: u64 = 100;
const NANOS: u64 = 1_000_000_000;
/// A limit of version 1 above this is none: the kernel rounds "unlimited" to pages.
const UNLIMITED: u64 = 1 << 62;

/// Usage counters of a group. A counter that this kernel or cgroup version does not have is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Nanoseconds of CPU time.
    pub cpu: Option<u64>,
    /// Nanoseconds of CPU time in user mode.
    pub cpu_user: Option<u64>,
    /// Nanoseconds of CPU time in kernel mode.
    pub cpu_system: Option<u64>,
    /// CFS periods in which the group was runnable (`nr_periods`).
    pub periods: Option<u64>,
    /// CFS periods in which the group was throttled (`nr_throttled`).
    pub throttled_periods: Option<u64>,
    /// Nanoseconds for which the group was throttled.
    pub throttled: Option<u64>,
    /// Its memory.
    pub memory: Memory,
    /// Processes and threads.
    pub tasks: Option<u64>,
    /// Limit of processes and threads (`pids.max`).
    pub tasks_limit: Option<u64>,
    /// Reads and writes, by device.
    pub disks: Vec<Disk>,
    /// Pressure stall information (PSI), by resource.
    pub pressure: BTreeMap<PressureResource, Pressure>,
}

/// Which counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterSet {
    /// CPU time, and memory and swap with their limits.
    CpuAndMemory,
    /// All.
    All,
}

impl CounterSet {
    fn has(self, file: &str) -> bool {
        const FEW: [&str; 10] = [
            "cpuacct.usage",
            "cpu.stat",
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
            "memory.memsw.limit_in_bytes",
            "memory.current",
            "memory.max",
            "memory.swap.current",
            "memory.swap.max",
            "memory.stat",
        ];
        self == Self::All || FEW.contains(&file)
    }
}

/// The memory of a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use, with page cache and kernel memory.
    pub usage: Option<u64>,
    /// The highest usage so far.
    pub peak: Option<u64>,
    /// The limit in bytes; `None` if unlimited.
    pub limit: Option<u64>,
    /// The soft limit: usage above it is reclaimed first under memory pressure.
    pub soft_limit: Option<u64>,
    /// Bytes of anonymous memory.
    pub rss: Option<u64>,
    /// Bytes of page cache.
    pub cache: Option<u64>,
    /// Bytes of page cache that is mapped by processes.
    pub mapped: Option<u64>,
    /// Bytes of page cache on the active LRU list.
    pub active_file: Option<u64>,
    /// Bytes of page cache on the inactive LRU list, which is reclaimed first.
    pub inactive_file: Option<u64>,
    /// Bytes of kernel memory that is charged to the group.
    pub kernel: Option<u64>,
    /// Bytes in swap.
    pub swap: Option<u64>,
    /// Limit of swap in bytes; `None` if unlimited.
    pub swap_limit: Option<u64>,
    /// How often usage hit the limit (`failcnt` on v1, `max` in `memory.events` on v2).
    pub limit_hits: Option<u64>,
    /// Page faults.
    pub faults: Option<u64>,
    /// Page faults that needed the disk.
    pub major_faults: Option<u64>,
    /// How many of its processes the OOM killer has killed.
    pub oom_kills: Option<u64>,
}

impl Memory {
    /// The working set as the kubelet defines it: usage without the inactive page cache.
    #[must_use]
    pub fn working_set(&self) -> Option<u64> {
        Some(self.usage?.saturating_sub(self.inactive_file.unwrap_or(0)))
    }

    /// Bytes until the limit, measured from the working set; `None` without a limit.
    #[must_use]
    pub fn available(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.working_set()?))
    }
}

/// Reads and writes of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// A resource of pressure stall information (PSI).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureResource {
    /// A processor.
    Cpu,
    /// Memory.
    Memory,
    /// A disk.
    Io,
}

/// Pressure stall information of one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// Time in which at least one task was stalled.
    pub some: Stall,
    /// Time in which all non-idle tasks were stalled at the same time.
    pub full: Stall,
}

/// One line of a pressure file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stall {
    /// Stalled microseconds in total.
    pub total: u64,
    /// Percentage of stalled time over the last 10, 60 and 300 seconds.
    pub averages: [f64; 3],
}

impl Counters {
    /// Reads the counters of this group. All are `None` if the group does not exist.
    #[must_use]
    pub fn read(group: &Group) -> Self {
        Self::read_some(group, CounterSet::All)
    }

    /// Reads some counters of this group; the others are `None`.
    #[must_use]
    pub fn read_some(group: &Group, set: CounterSet) -> Self {
        let text = |name: &str| if set.has(name) { texts(&group.places, name) } else { Vec::new() };
        Self::from_files(&text)
    }

    /// Whether CPU time and memory are counted: what runs has used some of both.
    #[must_use]
    pub fn has_usage(&self) -> bool {
        self.cpu.is_some_and(|cpu| cpu > 0) && self.memory.working_set().is_some_and(|memory| memory > 0)
    }

    /// Reads the counters of the whole host. The kernel does not count all of them there.
    #[must_use]
    pub fn read_root(hierarchies: &Hierarchies) -> Self {
        let place =
            |hierarchy: &Hierarchy| Place { dir: hierarchy.root.clone(), hierarchy: hierarchy.clone() };
        let places: Vec<_> = hierarchies.all().iter().map(place).collect();
        Self::from_files(&|name| texts(&places, name))
    }

    /// From whatever files there are of a name: both versions have a `cpu.stat`, with other words in it.
    fn from_files(files: &dyn Fn(&str) -> Vec<String>) -> Self {
        let of = Files(files);
        let cpu = of.pairs("cpu.stat");
        let ticks = of.pairs("cpuacct.stat");
        let micro = |name: &str| cpu.get(name).map(|value| value.saturating_mul(1000));
        let tick = |name: &str| ticks.get(name).map(|value| value.saturating_mul(NANOS / TICKS));
        Self {
            cpu: of.number("cpuacct.usage").or_else(|| micro("usage_usec")),
            cpu_user: tick("user").or_else(|| micro("user_usec")),
            cpu_system: tick("system").or_else(|| micro("system_usec")),
            periods: cpu.get("nr_periods").copied(),
            throttled_periods: cpu.get("nr_throttled").copied(),
            throttled: cpu.get("throttled_time").copied().or_else(|| micro("throttled_usec")),
            memory: of.memory(),
            tasks: of.number("pids.current"),
            tasks_limit: of.number("pids.max"),
            disks: of.disks(),
            pressure: of.pressure(),
        }
    }
}

/// The texts of a file in each hierarchy that can have it.
fn texts(places: &[Place], name: &str) -> Vec<String> {
    // Files of version 1 are named after their controller.
    let controller = name.split('.').next().unwrap_or_default();
    let can_have = |place: &&Place| place.hierarchy.kind == Kind::Unified || place.has(controller);
    let text = |place: &Place| fs::read_to_string(place.dir.join(name)).ok();
    places.iter().filter(can_have).filter_map(text).collect()
}

struct Files<'a>(&'a dyn Fn(&str) -> Vec<String>);

impl Files<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        (self.0)(name).iter().find_map(|text| text.trim().parse().ok())
    }

    fn limit(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|limit| *limit < UNLIMITED)
    }

    /// Lines of a name and a number.
    fn pairs(&self, name: &str) -> BTreeMap<String, u64> {
        let pair = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        (self.0)(name).iter().flat_map(|text| text.lines().filter_map(pair).collect::<Vec<_>>()).collect()
    }

    fn memory(&self) -> Memory {
        let stat = self.pairs("memory.stat");
        // Version 1 has its own children's under `total_…`.
        let first = |names: &[&str]| names.iter().find_map(|name| stat.get(*name).copied());
        let events = self.pairs("memory.events");
        let usage = self.number("memory.usage_in_bytes").or_else(|| self.number("memory.current"));
        let limit = self.limit("memory.limit_in_bytes").or_else(|| self.limit("memory.max"));
        let both = self.limit("memory.memsw.limit_in_bytes");
        Memory {
            usage,
            peak: self.number("memory.max_usage_in_bytes").or_else(|| self.number("memory.peak")),
            limit,
            soft_limit: self.limit("memory.soft_limit_in_bytes").or_else(|| self.limit("memory.low")),
            rss: first(&["total_rss", "anon"]),
            cache: first(&["total_cache", "file"]),
            mapped: first(&["total_mapped_file", "file_mapped"]),
            active_file: first(&["total_active_file", "active_file"]),
            inactive_file: first(&["total_inactive_file", "inactive_file"]),
            kernel: self.number("memory.kmem.usage_in_bytes").or_else(|| first(&["kernel"])),
            swap: first(&["total_swap"]).or_else(|| self.number("memory.swap.current")),
            swap_limit: match (both, limit) {
                (Some(both), Some(memory)) => Some(both.saturating_sub(memory)),
                _ => self.limit("memory.swap.max"),
            },
            limit_hits: self.number("memory.failcnt").or_else(|| events.get("max").copied()),
            faults: first(&["total_pgfault", "pgfault"]),
            major_faults: first(&["total_pgmajfault", "pgmajfault"]),
            oom_kills: self
                .pairs("memory.oom_control")
                .get("oom_kill")
                .or_else(|| events.get("oom_kill"))
                .copied(),
        }
    }

    fn disks(&self) -> Vec<Disk> {
        let mut found: BTreeMap<(u32, u32), Disk> = BTreeMap::new();
        let mut add = |device: &str, what: &str, value: u64| {
            let parts = device.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let Some((major, minor)) = parts else { return };
            let disk = found.entry((major, minor)).or_insert(Disk { major, minor, ..Disk::default() });
            match what {
                "rbytes" => disk.read_bytes = value,
                "wbytes" => disk.written_bytes = value,
                "rios" => disk.reads = value,
                "wios" => disk.writes = value,
                _ => {}
            }
        };
        for line in (self.0)("io.stat").iter().flat_map(|text| text.lines()) {
            let mut words = line.split_whitespace();
            let device = words.next().unwrap_or_default();
            for (name, value) in words.filter_map(|word| word.split_once('=')) {
                if let Ok(value) = value.parse() {
                    add(device, name, value);
                }
            }
        }
        let split = [
            ("blkio.throttle.io_service_bytes", "Read", "rbytes"),
            ("blkio.throttle.io_service_bytes", "Write", "wbytes"),
            ("blkio.throttle.io_serviced", "Read", "rios"),
            ("blkio.throttle.io_serviced", "Write", "wios"),
        ];
        for (file, word, what) in split {
            for line in (self.0)(file).iter().flat_map(|text| text.lines()) {
                if let [device, found, value] = line.split_whitespace().collect::<Vec<_>>()[..]
                    && found == word
                    && let Ok(value) = value.parse()
                {
                    add(device, what, value);
                }
            }
        }
        found.into_values().collect()
    }

    fn pressure(&self) -> BTreeMap<PressureResource, Pressure> {
        let kinds = [
            (PressureResource::Cpu, "cpu.pressure"),
            (PressureResource::Memory, "memory.pressure"),
            (PressureResource::Io, "io.pressure"),
        ];
        let read = |(kind, name): (PressureResource, &str)| Some((kind, pressure((self.0)(name).first()?)));
        kinds.into_iter().filter_map(read).collect()
    }
}

fn pressure(text: &str) -> Pressure {
    let mut found = Pressure::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let stall = match words.next() {
            Some("some") => &mut found.some,
            Some("full") => &mut found.full,
            _ => continue,
        };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let [ten, sixty, more] = &mut stall.averages;
            match name {
                "total" => stall.total = value.parse().unwrap_or(0),
                "avg10" => *ten = value.parse().unwrap_or(0.0),
                "avg60" => *sixty = value.parse().unwrap_or(0.0),
                "avg300" => *more = value.parse().unwrap_or(0.0),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Counters {
        let of = |name: &str| {
            files.iter().filter(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()).collect()
        };
        Counters::from_files(&of)
    }

    #[test]
    fn version_2_is_read() {
        let found = read(&[
            (
                "cpu.stat",
                "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 7\nnr_throttled 2\nthrottled_usec 9\n",
            ),
            ("memory.current", "1000\n"),
            ("memory.max", "4000\n"),
            ("memory.swap.max", "max\n"),
            ("memory.swap.current", "5\n"),
            (
                "memory.stat",
                "anon 300\nfile 600\nkernel 50\nfile_mapped 10\ninactive_file 400\npgfault 8\npgmajfault 1\n",
            ),
            ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"),
            ("pids.current", "4\n"),
            ("pids.max", "max\n"),
            ("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n"),
            ("io.pressure", "some avg10=1.50 avg60=0.00 avg300=0.25 total=77\nfull avg10=0.00 total=5\n"),
        ]);
        assert_eq!(
            (found.cpu, found.cpu_user, found.throttled),
            (Some(5_000_000), Some(3_000_000), Some(9000))
        );
        assert_eq!((found.memory.usage, found.memory.working_set()), (Some(1000), Some(600)));
        assert_eq!((found.memory.available(), found.memory.swap_limit), (Some(3400), None));
        assert_eq!((found.memory.limit_hits, found.memory.oom_kills), (Some(3), Some(1)));
        assert_eq!((found.tasks, found.tasks_limit), (Some(4), None));
        let disk = Disk { major: 8, minor: 0, read_bytes: 10, written_bytes: 20, reads: 1, writes: 2 };
        assert_eq!(found.disks, [disk]);
        let stall = found.pressure[&PressureResource::Io].some;
        assert_eq!((stall.total, stall.averages), (77, [1.5, 0.0, 0.25]));
    }

    #[test]
    fn version_1_is_read_also_beside_an_empty_unified_one() {
        let found = read(&[
            ("cpu.stat", "nr_periods 7\nnr_throttled 2\nthrottled_time 9000\n"),
            ("cpu.stat", "usage_usec 1\nuser_usec 1\nsystem_usec 0\n"),
            ("cpuacct.usage", "5000000\n"),
            ("cpuacct.stat", "user 3\nsystem 2\n"),
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
            ("memory.stat", "cache 1\nrss 2\ntotal_cache 600\ntotal_rss 300\ntotal_inactive_file 400\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("blkio.throttle.io_service_bytes", "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n"),
            ("blkio.throttle.io_serviced", "8:0 Read 1\n8:0 Write 2\n"),
        ]);
        assert_eq!((found.cpu, found.cpu_user), (Some(5_000_000), Some(30_000_000)));
        assert_eq!((found.throttled, found.throttled_periods), (Some(9000), Some(2)));
        assert_eq!((found.memory.rss, found.memory.cache), (Some(300), Some(600)));
        assert_eq!((found.memory.limit, found.memory.available()), (None, None));
        assert_eq!(found.memory.oom_kills, Some(2));
        assert_eq!((found.disks[0].written_bytes, found.disks[0].reads), (20, 1));
    }

    #[test]
    fn a_group_that_is_gone_has_nothing_to_tell() {
        assert_eq!(read(&[]), Counters::default());
        assert_eq!(read(&[("cpu.stat", "nonsense\n"), ("io.stat", "x y=z\n")]), Counters::default());
    }
}
