use super::files::read;
use super::find::Kind;
use super::{Group, Place};
use crate::error::Result;

/// Version 1 writes "unlimited" as the largest number of whole pages.
const UNLIMITED: u64 = i64::MAX.cast_unsigned() & !0xffff;

/// What a group has used. What no controller counts is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nanoseconds of processor time.
    pub cpu_ns: Option<u64>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Processes and threads that are there.
    pub pids: Option<u64>,
    /// How often a process was killed because the group had no memory left.
    pub oom_kills: Option<u64>,
}

/// What a group has used of memory, in bytes unless said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// All, with what the kernel keeps of files.
    pub usage: u64,
    /// What cannot be taken back at once.
    pub working_set: u64,
    /// Of the processes themselves.
    pub rss: u64,
    /// What is left below the limit, if there is one.
    pub available: Option<u64>,
    /// Of swap.
    pub swap: Option<u64>,
    /// Pages that were not there when first used.
    pub faults: u64,
    /// Those of them that had to be read from disk.
    pub major_faults: u64,
}

impl Group {
    /// What it has used so far; of a group that is not there, nothing.
    pub fn read_stats(&self) -> Result<Stats> {
        let memory = self.with("memory");
        Ok(Stats {
            cpu_ns: self.cpu_ns()?,
            memory: memory.map(memory_of).transpose()?.flatten(),
            pids: self.with("pids").map(|place| number(place, "pids.current")).transpose()?.flatten(),
            oom_kills: memory.map(oom_kills).transpose()?.flatten(),
        })
    }

    fn cpu_ns(&self) -> Result<Option<u64>> {
        // The unified hierarchy counts it with and without its controller, but there the processes may
        // not be when version 1 has the controller.
        if let Some(place) = self.with("cpuacct") {
            return number(place, "cpuacct.usage");
        }
        let Some(place) = self.places.iter().find(|place| place.hierarchy.kind == Kind::Unified) else {
            return Ok(None);
        };
        let micros = Table::read(place, "cpu.stat")?.and_then(|table| table.get("usage_usec"));
        Ok(micros.map(|micros| micros.saturating_mul(1000)))
    }
}

fn memory_of(place: &Place) -> Result<Option<Memory>> {
    let names = match place.hierarchy.kind {
        Kind::Split => &SPLIT,
        Kind::Unified => &UNIFIED,
    };
    let (Some(usage), Some(table)) = (number(place, names.usage)?, Table::read(place, "memory.stat")?) else {
        return Ok(None);
    };
    let inactive = table.get(names.inactive_file).unwrap_or(0);
    let working_set = usage.saturating_sub(inactive);
    let limit = match place.hierarchy.kind {
        Kind::Split => table.get("hierarchical_memory_limit").filter(|limit| *limit < UNLIMITED),
        Kind::Unified => number(place, "memory.max")?,
    };
    Ok(Some(Memory {
        usage,
        working_set,
        rss: table.get(names.rss).unwrap_or(0),
        available: limit.map(|limit| limit.saturating_sub(working_set)),
        swap: match place.hierarchy.kind {
            Kind::Split => table.get("total_swap"),
            Kind::Unified => number(place, "memory.swap.current")?,
        },
        faults: table.get(names.faults).unwrap_or(0),
        major_faults: table.get(names.major_faults).unwrap_or(0),
    }))
}

/// Where each version writes what.
struct Names {
    usage: &'static str,
    inactive_file: &'static str,
    rss: &'static str,
    faults: &'static str,
    major_faults: &'static str,
}

const SPLIT: Names = Names {
    usage: "memory.usage_in_bytes",
    inactive_file: "total_inactive_file",
    rss: "total_rss",
    faults: "total_pgfault",
    major_faults: "total_pgmajfault",
};

const UNIFIED: Names = Names {
    usage: "memory.current",
    inactive_file: "inactive_file",
    rss: "anon",
    faults: "pgfault",
    major_faults: "pgmajfault",
};

fn oom_kills(place: &Place) -> Result<Option<u64>> {
    let file = match place.hierarchy.kind {
        Kind::Split => "memory.oom_control",
        Kind::Unified => "memory.events",
    };
    Ok(Table::read(place, file)?.and_then(|table| table.get("oom_kill")))
}

/// A file with one number; `max` is none.
fn number(place: &Place, name: &str) -> Result<Option<u64>> {
    Ok(read(&place.dir.join(name))?.and_then(|text| text.trim().parse().ok()))
}

/// A file of lines with a name and a number each.
struct Table(String);

impl Table {
    fn read(place: &Place, name: &str) -> Result<Option<Self>> {
        Ok(read(&place.dir.join(name))?.map(Self))
    }

    fn get(&self, name: &str) -> Option<u64> {
        let line = |line: &str| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok();
        self.0.lines().find_map(line)
    }
}
