use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::dir::LogDir;
use super::files::LogFile;
use super::line::Lines;

/// Maximum lines and bytes of a fallback termination message, as in Kubernetes (FallbackToLogsOnError).
const LINES: usize = 80;
const BYTES: usize = 2048;
/// Number of bytes that are read from a file's end: more than 80 empty lines, and more than the longest line
/// that a runtime writes.
const WINDOW: u64 = 64 << 10;

/// The end of the logs of one instance of a container: at most 80 lines and 2048 bytes. Only the ends of files are
/// read.
#[must_use]
pub fn tail(dir: &Path, attempt: u32) -> String {
    let (mut last, mut bytes) = (Vec::new(), 0);
    // A log that cannot be read counts as empty.
    let Ok(dir) = LogDir::open(dir) else { return String::new() };
    let logs = dir.logs().unwrap_or_default();
    for log in logs.into_iter().rev().filter(|log| log.attempt == attempt && log.is_text()) {
        let read = end(&dir, log).unwrap_or_default();
        let lines: Vec<Vec<u8>> = Lines::over(&read).map(|line| line.text).collect();
        for text in lines.into_iter().rev().take(LINES - last.len()) {
            bytes += text.len();
            last.push(text);
        }
        if last.len() >= LINES || bytes >= BYTES {
            break;
        }
    }
    let text: Vec<u8> = last.into_iter().rev().flatten().collect();
    let text = String::from_utf8_lossy(&text);
    let surplus = text.len().saturating_sub(BYTES);
    let start = text.char_indices().map(|(at, _)| at).find(|at| *at >= surplus);
    start.and_then(|start| text.get(start..)).unwrap_or_default().to_owned()
}

/// The end of a file, from the beginning of a line.
fn end(dir: &LogDir, log: LogFile) -> io::Result<Vec<u8>> {
    let Some(mut file) = dir.read(log)? else { return Ok(Vec::new()) };
    let start = file.metadata()?.len().saturating_sub(WINDOW);
    // Read the byte before, too: it is a newline if a line begins at `start`.
    file.seek(SeekFrom::Start(start.saturating_sub(1)))?;
    let mut bytes = Vec::new();
    file.take(WINDOW + 1).read_to_end(&mut bytes)?;
    if start > 0 {
        let first = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..first);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn log(lines: std::ops::Range<u32>) -> String {
        lines.fold(String::new(), |mut text, number| {
            writeln!(text, "2026-11-17T03:00:00.000000001Z stdout F {number}").unwrap();
            text
        })
    }

    #[test]
    fn the_end_is_eighty_lines_also_over_rotated_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("0.log.1", &log(0..100));
        write("0.log", &log(100..110));
        let wanted: String = (30..110).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail(dir.path(), 0), wanted);
        assert_eq!(tail(dir.path(), 1), "");
        write("0.log", &log(100..100_000));
        let wanted: String = (99_920..100_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail(dir.path(), 0), wanted);
    }

    #[test]
    fn the_end_is_2048_bytes_and_begins_with_a_whole_character() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("t stdout P {}\nt stdout F end\n", "ä".repeat(8000));
        std::fs::write(dir.path().join("0.log"), line.repeat(100)).unwrap();
        let text = tail(dir.path(), 0);
        assert!(text.starts_with('ä') && text.ends_with("äend\n"), "{text}");
        assert!((2046..=2048).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn a_line_longer_than_what_is_read_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("0.log"), format!("t stdout F {}\n", "x".repeat(1 << 20))).unwrap();
        assert_eq!(tail(dir.path(), 0), "");
    }
}
