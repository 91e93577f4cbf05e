use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::dir::LogDir;
use super::files::LogFile;

/// Number of bytes of one read.
const PIECE: u64 = 64 << 10;

/// Which part of the log of one instance of a container is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLog {
    /// The instance: the number of restarts before it.
    pub attempt: u32,
    /// Only so many lines from the end, and what follows them; `None` for all.
    pub last_lines: Option<u64>,
    /// Whether lines are read that are written after the start.
    pub follow: bool,
}

/// A position in the files of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) log: LogFile,
    pub(super) offset: u64,
}

/// Where the last `lines` lines begin; `None` if the files have no more lines than that. A line that the runtime has cut
/// counts as many times as it has parts, as for a kubelet. `logs` are in the order in which they were written.
pub(super) fn last_lines(dir: &LogDir, logs: &[LogFile], lines: u64) -> io::Result<Option<Position>> {
    let mut wanted = lines;
    for log in logs.iter().rev() {
        let Some(file) = dir.read(*log)? else { continue };
        match backwards(&file, wanted)? {
            Back::Found(offset) => return Ok(Some(Position { log: *log, offset })),
            Back::Missing(lines) => wanted = lines,
        }
    }
    Ok(None)
}

/// The result of a search from the end of a file.
enum Back {
    /// Where the first of the lines begins.
    Found(u64),
    /// The number of lines that the file lacks, the first line of the file included.
    Missing(u64),
}

/// Searches a file from its end, with bounded memory. An incomplete line at the end is not counted.
fn backwards(file: &File, lines: u64) -> io::Result<Back> {
    let mut ends = 0_u64;
    let mut end = file.metadata()?.len();
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        buffer.resize(usize::try_from(end - start).unwrap_or(0), 0);
        file.read_exact_at(&mut buffer, start)?;
        for byte in buffer.iter().rev() {
            if *byte == b'\n' {
                if ends == lines {
                    return Ok(Back::Found(end));
                }
                ends += 1;
            }
            end -= 1;
        }
    }
    Ok(Back::Missing(lines.saturating_sub(ends)))
}
