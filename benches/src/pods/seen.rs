//! The pods' processes as they are seen from outside: by an argument that no other process has.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Seconds that the pods' process sleeps: so many that it never ends by itself.
const FIRST_MARK: u32 = 700_000_000;

/// So many marks that no pod has had.
pub(crate) fn fresh_marks(pods: u32) -> BTreeSet<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_MARK);
    let first = NEXT.fetch_add(pods, Ordering::Relaxed);
    (first..first + pods).collect()
}

/// So many pods of the template, with the marks of their processes.
pub(crate) fn manifest_of(template: &str, pods: u32) -> (String, BTreeSet<u32>) {
    let marks = fresh_marks(pods);
    let one = |mark: &u32| {
        template
            .replace("@MARK@", &mark.to_string())
            .replace("name: bench\n", &format!("name: bench-{mark}\n"))
    };
    (marks.iter().map(one).collect::<Vec<_>>().join("---\n"), marks)
}

/// When the last of them was seen.
pub(crate) fn until_all_run(marks: &BTreeSet<u32>, began: Instant) -> anyhow::Result<Duration> {
    until(began, || {
        let seen = running();
        marks.difference(&seen).map(|mark| format!("bench-{mark} does not run")).collect()
    })
}

pub(crate) fn until_none_runs(marks: &BTreeSet<u32>, began: Instant) -> anyhow::Result<Duration> {
    until(began, || marks.intersection(&running()).map(|mark| format!("bench-{mark} still runs")).collect())
}

/// Waits until nothing is missing.
fn until(began: Instant, missing: impl Fn() -> Vec<String>) -> anyhow::Result<Duration> {
    loop {
        let missing = missing();
        if missing.is_empty() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > PATIENCE {
            bail!("not within {PATIENCE:?}: {}", missing.join(", "));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn running() -> BTreeSet<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| mark(&fs::read(format!("/proc/{pid}/cmdline")).ok()?)).collect()
}

/// Only the arguments of the image's own program: a runtime that is about to exec it has other ones.
fn mark(command_line: &[u8]) -> Option<u32> {
    let rest = command_line.strip_prefix(b"/bin/busybox\0sleep\0")?;
    std::str::from_utf8(rest.strip_suffix(b"\0")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_has_a_name_and_a_mark_of_its_own() {
        let (text, marks) = manifest_of("name: bench\ncommand: [\"@MARK@\"]\n", 3);
        assert_eq!((marks.len(), text.matches("---\n").count()), (3, 2));
        for mark in &marks {
            assert!(
                text.contains(&format!("name: bench-{mark}\n")) && text.contains(&format!("[\"{mark}\"]"))
            );
        }
        assert!(manifest_of("", 1).1.is_disjoint(&marks));
    }

    #[test]
    fn a_process_is_known_by_its_whole_command_line() {
        assert_eq!(mark(b"/bin/busybox\0sleep\x007\0"), Some(7));
        for other in [&b"runc\0init\0"[..], b"/bin/busybox\0sleep\0", b"/bin/busybox\0sleep\x007\x008\0", b""]
        {
            assert_eq!(mark(other), None);
        }
    }
}
