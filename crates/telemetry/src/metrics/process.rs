//! Metrics of the process itself, under the names that every Prometheus client library gives them.

use procfs::{Task, field};

use super::error::Error;
use super::family::{Description, Family, Kind};
use super::number::to_f64;
use super::registry::Collector;

/// Reads `/proc/self` when it is asked. What cannot be read is left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessMetrics;

/// When the process was started, alone, for a registry beside the main one: the start of a counter is known by it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessStart;

const START: (&str, Kind, &str) =
    ("process_start_time_seconds", Kind::Gauge, "When the process was started, in seconds since 1970");

/// In the order of [`Family`]s.
const FAMILIES: [(&str, Kind, &str); 6] = [
    (
        "process_cpu_seconds_total",
        Kind::Counter,
        "CPU time of the process in user and system mode, in seconds",
    ),
    ("process_resident_memory_bytes", Kind::Gauge, "Memory of the process that is in RAM"),
    ("process_virtual_memory_bytes", Kind::Gauge, "Address space of the process"),
    START,
    ("process_open_fds", Kind::Gauge, "Descriptors that the process has open"),
    ("process_max_fds", Kind::Gauge, "The most descriptors that the process may have open"),
];

impl Collector for ProcessMetrics {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let family = |(name, kind, help)| Family::new(Description::new(name, help), kind, &[]);
        FAMILIES.into_iter().map(family).collect()
    }

    fn collect(&self, families: &mut [Family]) {
        let Ok(task) = Task::own() else { return };
        let usage = task.read("stat").ok().and_then(|stat| Usage::parse(&stat));
        let descriptors = task.descriptors().ok().and_then(|all| u64::try_from(all.len()).ok());
        let limit = task.read("limits").ok().and_then(|text| most_descriptors(&text));
        let values = [
            usage.map(|usage| usage.cpu),
            usage.map(|usage| usage.resident),
            usage.map(|usage| usage.size),
            usage.and_then(|usage| usage.begun()),
            descriptors.map(to_f64),
            limit,
        ];
        for (family, value) in families.iter_mut().zip(values) {
            if let Some(value) = value {
                family.sample(&[], value);
            }
        }
    }
}

impl Collector for ProcessStart {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let (name, kind, help) = START;
        Ok(vec![Family::new(Description::new(name, help), kind, &[])?])
    }

    fn collect(&self, families: &mut [Family]) {
        let stat = Task::own().ok().and_then(|task| task.read("stat").ok());
        let begun = stat.and_then(|stat| Usage::parse(&stat)?.begun());
        if let ([family], Some(begun)) = (families, begun) {
            family.sample(&[], begun);
        }
    }
}

/// What `/proc/self/stat` says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Usage {
    /// Seconds of CPU time.
    cpu: f64,
    /// Seconds from the boot to the start.
    started: f64,
    /// Bytes of address space.
    size: f64,
    /// Bytes in RAM.
    resident: f64,
}

impl Usage {
    fn parse(stat: &[u8]) -> Option<Self> {
        let number = |index| field::<u64>(stat, index).map(to_f64);
        let whole = |number: usize| u64::try_from(number).map(to_f64).ok();
        let ticks = whole(usize::try_from(rustix::param::clock_ticks_per_second()).ok()?)?;
        Some(Self {
            cpu: (number(14)? + number(15)?) / ticks,
            started: number(22)? / ticks,
            size: number(23)?,
            resident: number(24)? * whole(rustix::param::page_size())?,
        })
    }

    /// When the process was started, in seconds since 1970.
    fn begun(self) -> Option<f64> {
        let booted = std::fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text))?;
        Some(booted + self.started)
    }
}

/// When the machine was booted, in seconds since 1970, from `/proc/stat`.
fn boot_time(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<u64>().ok().map(to_f64)
}

/// The soft limit of open descriptors, from `/proc/self/limits`.
fn most_descriptors(text: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(text);
    let rest = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        number => number.parse::<u64>().ok().map(to_f64),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::metrics::Registry;

    fn value(registry: &Registry, name: &str) -> f64 {
        let text = registry.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    #[test]
    fn this_process_has_all_of_them() {
        let registry = Registry::default();
        registry.collector(Arc::new(ProcessMetrics)).unwrap();
        assert!(value(&registry, "process_cpu_seconds_total") >= 0.0);
        let (resident, size) = (
            value(&registry, "process_resident_memory_bytes"),
            value(&registry, "process_virtual_memory_bytes"),
        );
        assert!(resident > 100_000.0 && size >= resident, "{resident} {size}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value(&registry, "process_start_time_seconds");
        assert!(age > -2.0 && age < Duration::from_secs(86_400).as_secs_f64(), "{age}");
        assert!(value(&registry, "process_max_fds") >= value(&registry, "process_open_fds"));
    }

    #[test]
    fn a_registry_may_have_the_start_alone() {
        let [all, start] = [Registry::default(), Registry::default()];
        all.collector(Arc::new(ProcessMetrics)).unwrap();
        start.collector(Arc::new(ProcessStart)).unwrap();
        let name = "process_start_time_seconds";
        assert!((value(&all, name) - value(&start, name)).abs() < 1.5);
        assert_eq!(start.text().lines().filter(|line| !line.starts_with('#')).count(), 1);
    }

    #[test]
    fn each_open_descriptor_counts() {
        let registry = Registry::default();
        registry.collector(Arc::new(ProcessMetrics)).unwrap();
        // More than other tests of this process may close meanwhile.
        let held: Vec<File> = (0..200).map(|_| File::open("/dev/null").unwrap()).collect();
        let with = value(&registry, "process_open_fds");
        drop(held);
        let without = value(&registry, "process_open_fds");
        assert!(with - without > 150.0, "{with} {without}");
    }

    #[test]
    fn fields_are_read_behind_any_name_and_a_limit_may_be_none() {
        let fields: Vec<String> = (3..=24).map(|number| (number * 100).to_string()).collect();
        let usage = Usage::parse(format!("7 (a) b) {}", fields.join(" ")).as_bytes()).unwrap();
        assert_eq!((usage.cpu, usage.started, usage.size), (29.0, 22.0, 2300.0));
        assert_eq!(Usage::parse(b"7 (a) S 1"), None);
        let limits =
            b"Max processes 1 2 processes\nMax open files            unlimited            unlimited files\n";
        assert_eq!(most_descriptors(limits), Some(f64::INFINITY));
        assert_eq!(most_descriptors(b"Max open files  1024  4096  files\n"), Some(1024.0));
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
