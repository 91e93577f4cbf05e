//! A container with `terminationMessagePolicy: FallbackToLogsOnError` fills its log and fails: the node read all of the
//! log into memory to find its last lines, 408 MB for a log of 100 MB, and again with every look at the pod.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::io::Write;

use agent::logs::{Reader, tail};

const SIZE: usize = 100 << 20;
/// In kilobytes.
const MOST_MORE: usize = 8 << 10;

/// The most memory that this process has had, in kilobytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_large_log_takes_bounded_memory_to_find_its_end_and_to_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let line = [b"2026-11-17T03:00:00.123456789Z stdout F ".as_slice(), &[b'x'; 60], b"\n"].concat();
    let block = line.repeat(1000);
    let mut file = std::fs::File::create(dir.path().join("0.log")).unwrap();
    (0..SIZE / block.len()).for_each(|_| file.write_all(&block).unwrap());
    file.write_all(b"2026-11-17T03:00:01Z stderr F the end\n").unwrap();
    let before = most_memory();
    let text = tail(dir.path(), 0);
    assert!(text.len() <= 2048 && text.ends_with("xx\nthe end\n"), "{text}");
    let mut reader = Reader::new(dir.path());
    let mut lines = 0;
    loop {
        let read = reader.read().unwrap();
        if read.is_empty() {
            break;
        }
        lines += read.len();
    }
    assert_eq!(lines, SIZE / block.len() * 1000 + 1);
    let more = most_memory() - before;
    assert!(more < MOST_MORE, "{more} kB more");
}
