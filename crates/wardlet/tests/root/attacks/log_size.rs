//! A container writes a large log, and `wardlet logs` read all of it into memory at once: four times its size.

use std::io::{Read, Write};

use super::left_pod::LeftPod;

const SIZE: usize = 100 << 20;
/// In kilobytes: of a program that has not read anything yet, with room to spare.
const MOST_MEMORY: usize = 120 << 10;

/// A log of this many bytes: the first half is a rotated file.
fn flood(pod: &LeftPod, size: usize) -> usize {
    let line = [b"2026-11-17T03:00:00.123456789Z stdout F ".as_slice(), &[b'x'; 60], b"\n"].concat();
    let block = line.repeat(1000);
    let blocks = size / 2 / block.len();
    for name in ["0.log.1", "0.log"] {
        let mut file = std::fs::File::create(pod.logs().join(name)).unwrap();
        (0..blocks).for_each(|_| file.write_all(&block).unwrap());
    }
    2 * blocks * 1000
}

/// The most memory that the process has had, in kilobytes.
fn most_memory(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_large_log_is_printed_in_bounded_memory() {
    let pod = LeftPod::new();
    let lines = flood(&pod, SIZE);
    let mut child = pod.wardlet(&["logs", "evil"]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut piece, mut seen, mut most) = (vec![0; 1 << 20], 0, 0);
    loop {
        let read = out.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        seen += piece[..read].iter().filter(|byte| **byte == b'\n').count();
        most = most.max(most_memory(child.id()).unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    println!("{most} kB for a log of {SIZE} bytes");
    assert!((1..MOST_MEMORY).contains(&most), "{most} kB");
    assert_eq!(seen, lines, "rotated files are part of the log");
}
