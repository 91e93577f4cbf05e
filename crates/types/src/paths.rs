//! Paths of `/proc` and `/sys` that containers without `procMount: Unmasked` do not get as they are.

/// Files that tell of the host's devices, keys, memory or load, in the kubelet's order.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Paths that a container can read and not write: what is written there changes the host.
pub const READ_ONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Paths that a container sees empty, on a machine with these processors.
///
/// Each processor has a directory with counts of how often it was throttled, which tells a container about the load
/// of others; hence the numbers. A caller passes all processors that the machine can have, not only those that are
/// online now: one may come online while the container runs.
///
/// The CRI client sends this list with each container and the CRI server uses it for a container without a security
/// context, so that a container is confined alike whichever of the two decides.
#[must_use]
pub fn masked_paths(cpus: impl IntoIterator<Item = u32>) -> Vec<String> {
    let throttling = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    MASKED.iter().map(|path| (*path).to_owned()).chain(cpus.into_iter().map(throttling)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_adds_its_throttling_directory() {
        let paths = masked_paths([0, 7]);
        assert_eq!(paths.len(), MASKED.len() + 2);
        for path in [
            "/proc/kcore",
            "/sys/devices/virtual/powercap",
            "/sys/devices/system/cpu/cpu0/thermal_throttle",
            "/sys/devices/system/cpu/cpu7/thermal_throttle",
        ] {
            assert!(paths.iter().any(|found| found == path), "{path} is missing in {paths:?}");
        }
    }

    #[test]
    fn no_path_is_both_masked_and_read_only() {
        let masked = masked_paths([0]);
        let both: Vec<_> = READ_ONLY_PATHS.iter().filter(|path| masked.iter().any(|m| m == *path)).collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
