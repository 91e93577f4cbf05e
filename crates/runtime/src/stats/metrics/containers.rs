use cgroups::{Disk, Pressure, PressureResource};
use cri::MetricType::{Counter, Gauge};

use super::super::Container;
use super::known::{Known, SECOND, Value, plain};

const MICROSECONDS: u64 = 1_000_000;

macro_rules! known {
    ($name:literal, $help:literal, $kind:expr, $of:expr) => {
        known!($name, $help, $kind, &[], |of, _| plain(value(of, $of)))
    };
    ($name:literal, $help:literal, $kind:expr, $labels:expr, $values:expr) => {
        Known { name: $name, help: $help, kind: $kind, labels: $labels, values: $values }
    };
}

pub(super) const ALL: &[Known<Container>] = &[
    known!("container_cpu_usage_seconds_total", "Processor time in seconds.", Counter, &["cpu"], |of, _| {
        labelled("total", of.counters.cpu.map(|time| time / SECOND))
    }),
    known!("container_cpu_user_seconds_total", "Processor time in programs, in seconds.", Counter, |of| {
        of.counters.cpu_user.map(|time| time / SECOND)
    }),
    known!(
        "container_cpu_system_seconds_total",
        "Processor time in the kernel, in seconds.",
        Counter,
        |of| { of.counters.cpu_system.map(|time| time / SECOND) }
    ),
    known!("container_cpu_cfs_periods_total", "Periods in which the quota was enforced.", Counter, |of| {
        of.counters.periods
    }),
    known!(
        "container_cpu_cfs_throttled_periods_total",
        "Periods in which the quota was used up.",
        Counter,
        |of| of.counters.throttled_periods
    ),
    known!(
        "container_cpu_cfs_throttled_seconds_total",
        "Time spent waiting for the next period, in seconds.",
        Counter,
        |of| of.counters.throttled.map(|time| time / SECOND)
    ),
    known!("container_processes", "Processes.", Gauge, |of| Some(of.processes.count)),
    known!("container_threads", "Processes and threads.", Gauge, |of| of.counters.tasks),
    known!("container_threads_max", "The most processes and threads; 0 is no limit.", Gauge, |of| {
        Some(of.counters.tasks_limit.unwrap_or(0))
    }),
    known!("container_file_descriptors", "Open files.", Gauge, |of| Some(of.processes.files)),
    known!("container_sockets", "Open sockets.", Gauge, |of| Some(of.processes.sockets)),
    known!("container_ulimits_soft", "Limits of the first process.", Gauge, &["ulimit"], |of, _| labelled(
        "max_open_files",
        of.processes.open_files_limit
    )),
    known!("container_last_seen", "When it was looked at, in seconds since 1970.", Gauge, &[], |_, at| {
        plain(seconds(at))
    }),
    known!("container_start_time_seconds", "When it was started, in seconds since 1970.", Gauge, |of| {
        seconds(of.started_at)
    }),
    known!("container_spec_cpu_period", "The period of its quota, in microseconds.", Gauge, |of| {
        Some(of.limits.cpu_period.unwrap_or(0))
    }),
    known!("container_spec_cpu_quota", "Its quota, in microseconds.", Gauge, |of| {
        of.limits.cpu_quota.and_then(|quota| u64::try_from(quota).ok())
    }),
    known!("container_spec_cpu_shares", "Its weight among others.", Gauge, |of| {
        Some(of.limits.cpu_shares.unwrap_or(0))
    }),
    known!("container_spec_memory_limit_bytes", "Its limit of memory; 0 is none.", Gauge, |of| {
        limit(of.limits.memory)
    }),
    known!(
        "container_spec_memory_swap_limit_bytes",
        "Its limit of memory and swap; 0 is none.",
        Gauge,
        |of| { limit(of.limits.memory_swap) }
    ),
    known!(
        "container_spec_memory_reservation_limit_bytes",
        "The limit that is held when others need memory; 0 is none.",
        Gauge,
        |of| Some(of.counters.memory.soft_limit.unwrap_or(0))
    ),
    known!(
        "container_fs_usage_bytes",
        "Bytes that it has written and keeps.",
        Gauge,
        &["device"],
        |of, _| disk_of(of, |of| Some(of.written.as_ref()?.usage.bytes))
    ),
    known!(
        "container_fs_limit_bytes",
        "Bytes of the filesystem that it writes to.",
        Gauge,
        &["device"],
        |of, _| disk_of(of, |of| Some(of.written.as_ref()?.filesystem?.bytes))
    ),
    known!(
        "container_fs_inodes_total",
        "Inodes of the filesystem that it writes to.",
        Gauge,
        &["device"],
        |of, _| disk_of(of, |of| Some(of.written.as_ref()?.filesystem?.inodes))
    ),
    known!(
        "container_fs_inodes_free",
        "Free inodes of the filesystem that it writes to.",
        Gauge,
        &["device"],
        |of, _| disk_of(of, |of| Some(of.written.as_ref()?.filesystem?.inodes_free))
    ),
    known!("container_fs_reads_bytes_total", "Bytes read from disks.", Counter, &["device"], |of, _| {
        disks(of, |disk| disk.read_bytes)
    }),
    known!("container_fs_reads_total", "Reads from disks.", Counter, &["device"], |of, _| {
        disks(of, |disk| disk.reads)
    }),
    known!("container_fs_writes_bytes_total", "Bytes written to disks.", Counter, &["device"], |of, _| {
        disks(of, |disk| disk.written_bytes)
    }),
    known!("container_fs_writes_total", "Writes to disks.", Counter, &["device"], |of, _| {
        disks(of, |disk| disk.writes)
    }),
    known!(
        "container_blkio_device_usage_total",
        "Bytes moved to and from disks, by device and direction.",
        Counter,
        &["device", "major", "minor", "operation"],
        |of, _| operations(&of.counters.disks)
    ),
    known!(
        "container_pressure_cpu_waiting_seconds_total",
        "Time that some waited for a processor, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Cpu, |of| of.some.total)
    ),
    known!(
        "container_pressure_cpu_stalled_seconds_total",
        "Time that all waited for a processor, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Cpu, |of| of.full.total)
    ),
    known!(
        "container_pressure_memory_waiting_seconds_total",
        "Time that some waited for memory, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Memory, |of| of.some.total)
    ),
    known!(
        "container_pressure_memory_stalled_seconds_total",
        "Time that all waited for memory, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Memory, |of| of.full.total)
    ),
    known!(
        "container_pressure_io_waiting_seconds_total",
        "Time that some waited for a disk, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Io, |of| of.some.total)
    ),
    known!(
        "container_pressure_io_stalled_seconds_total",
        "Time that all waited for a disk, in seconds.",
        Counter,
        |of| stalled(of, PressureResource::Io, |of| of.full.total)
    ),
];

fn value(container: &Container, of: impl Fn(&Container) -> Option<u64>) -> Option<u64> {
    of(container)
}

fn labelled(label: &str, value: Option<u64>) -> Vec<Value> {
    value.map(|value| Value { labels: vec![label.to_owned()], value }).into_iter().collect()
}

fn seconds(nanoseconds: i64) -> Option<u64> {
    Some(u64::try_from(nanoseconds).ok()? / SECOND)
}

fn limit(limit: Option<i64>) -> Option<u64> {
    Some(limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(0))
}

fn disk_of(of: &Container, value: impl Fn(&Container) -> Option<u64>) -> Vec<Value> {
    let path = of.written.as_ref().map_or("", |written| written.path.as_str());
    labelled(path, value(of))
}

fn device(disk: &Disk) -> String {
    format!("{}:{}", disk.major, disk.minor)
}

fn disks(of: &Container, value: impl Fn(&Disk) -> u64) -> Vec<Value> {
    let one = |disk: &Disk| Value { labels: vec![device(disk)], value: value(disk) };
    of.counters.disks.iter().map(one).collect()
}

fn operations(disks: &[Disk]) -> Vec<Value> {
    let of = |disk: &Disk| {
        let labels = [device(disk), disk.major.to_string(), disk.minor.to_string()];
        [("Read", disk.read_bytes), ("Write", disk.written_bytes)].map(|(operation, value)| Value {
            labels: labels.iter().cloned().chain([operation.to_owned()]).collect(),
            value,
        })
    };
    disks.iter().flat_map(of).collect()
}

fn stalled(of: &Container, resource: PressureResource, total: impl Fn(&Pressure) -> u64) -> Option<u64> {
    of.counters.pressure.get(&resource).map(|pressure| total(pressure) / MICROSECONDS)
}
