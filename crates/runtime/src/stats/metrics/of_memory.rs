use cgroups::Memory;
use cri::MetricType::{Counter, Gauge};

use super::super::Container;
use super::known::{Known, Value, plain};

macro_rules! memory {
    ($name:literal, $help:literal, $kind:expr, $of:expr) => {
        Known {
            name: $name,
            help: $help,
            kind: $kind,
            labels: &[],
            values: |of, _| plain(value(&of.counters.memory, $of)),
        }
    };
}

pub(super) const ALL: &[Known<Container>] = &[
    memory!("container_memory_usage_bytes", "Bytes of memory in use, of all kinds.", Gauge, |of| of.usage),
    memory!(
        "container_memory_working_set_bytes",
        "Bytes of memory that cannot be had back at once.",
        Gauge,
        Memory::working_set
    ),
    memory!("container_memory_max_usage_bytes", "The most memory ever in use, in bytes.", Gauge, |of| of
        .peak),
    memory!("container_memory_rss", "Bytes of memory of programs' own.", Gauge, |of| of.rss),
    memory!("container_memory_cache", "Bytes of memory of files.", Gauge, |of| of.cache),
    memory!("container_memory_mapped_file", "Bytes of memory of mapped files.", Gauge, |of| of.mapped),
    memory!("container_memory_kernel_usage", "Bytes of memory of the kernel's.", Gauge, |of| of.kernel),
    memory!("container_memory_swap", "Bytes in swap.", Gauge, |of| of.swap),
    memory!(
        "container_memory_total_active_file_bytes",
        "Bytes of memory of files that were used of late.",
        Gauge,
        |of| of.active_file
    ),
    memory!(
        "container_memory_total_inactive_file_bytes",
        "Bytes of memory of files that were not used of late.",
        Gauge,
        |of| of.inactive_file
    ),
    memory!("container_memory_failcnt", "How often the limit was reached.", Counter, |of| of.limit_hits),
    memory!(
        "container_oom_events_total",
        "How often a process was killed for want of memory.",
        Counter,
        |of| of.oom_kills
    ),
    Known {
        name: "container_memory_failures_total",
        help: "Page faults, by kind.",
        kind: Counter,
        labels: &["failure_type", "scope"],
        values: |of, _| faults(&of.counters.memory),
    },
];

fn value(memory: &Memory, of: impl Fn(&Memory) -> Option<u64>) -> Option<u64> {
    of(memory)
}

fn faults(of: &Memory) -> Vec<Value> {
    let kinds = [("pgfault", of.faults), ("pgmajfault", of.major_faults)];
    let one = |(kind, value): (&str, Option<u64>)| {
        Some(Value { labels: vec![kind.to_owned(), "hierarchy".to_owned()], value: value? })
    };
    kinds.into_iter().filter_map(one).collect()
}
