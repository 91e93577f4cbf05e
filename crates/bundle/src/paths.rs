//! Paths of `/proc` and `/sys` that a container sees empty, or cannot change.

use std::fs;
use std::sync::OnceLock;

/// They tell of the host's devices, or of its keys and memory.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// What is written there changes the host.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The processors that this machine can ever have.
const PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// No machine has more; a longer list would be a mistake.
const MOST_PROCESSORS: u32 = 8192;

/// Paths that a container sees empty, unless it is told otherwise.
#[must_use]
pub fn masked_paths() -> Vec<String> {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    let all = || {
        let processors = fs::read_to_string(PROCESSORS).unwrap_or_default();
        let heat = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
        MASKED.iter().map(|path| (*path).to_owned()).chain(numbers(&processors).map(heat)).collect()
    };
    ALL.get_or_init(all).clone()
}

/// Paths that a container cannot change, unless it is told otherwise.
#[must_use]
pub fn read_only_paths() -> Vec<String> {
    READ_ONLY.iter().map(|path| (*path).to_owned()).collect()
}

/// The numbers of a list such as `0-3,8`.
fn numbers(list: &str) -> impl Iterator<Item = u32> {
    list.trim().split(',').filter_map(range).flatten()
}

fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let last: u32 = last.parse().ok()?;
    Some(first.parse().ok()?..=last.min(MOST_PROCESSORS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_read_as_the_kernel_writes_it() {
        assert_eq!(numbers("0-3,8\n").collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(numbers("").count(), 0);
        assert_eq!(numbers("0-4294967295").count(), 8193);
    }

    #[test]
    fn the_heat_of_each_processor_of_this_machine_is_hidden() {
        let paths = masked_paths();
        assert!(
            paths.iter().any(|path| path == "/sys/devices/system/cpu/cpu0/thermal_throttle"),
            "{paths:?}"
        );
        assert!(paths.iter().any(|path| path == "/proc/kcore"));
    }
}
