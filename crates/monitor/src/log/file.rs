use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kernel::{Dir, DirMode};
use monitor::LogLimits;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::note::note;

/// The file of a container's log. Output that cannot be written is dropped and counted: the container goes on.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    size: u64,
    limits: Option<LogLimits>,
    lost: Lost,
    /// The file ends within a line.
    cut: bool,
}

#[derive(Debug, Default)]
struct Lost {
    bytes: u64,
    why: Option<io::Error>,
}

impl Log {
    pub(crate) fn open(path: &Path, limits: Option<LogLimits>) -> io::Result<Self> {
        let (file, size) = open(path)?;
        Ok(Self { path: path.to_owned(), file, size, limits, lost: Lost::default(), cut: false })
    }

    /// Opens the log anew after another process has renamed it. If the new file cannot be created, the old one stays
    /// in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size) = open(&self.path)?;
        self.cut = false;
        Ok(())
    }

    /// Adds whole lines.
    pub(crate) fn append(&mut self, lines: &[u8]) {
        let mut rest = lines;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_checked(self.fitting(rest)).unwrap_or((rest, &[]));
            self.rotate_before(now.len());
            self.append_to_file(now);
            rest = later;
        }
    }

    /// How many bytes of these lines go into one file: lines are never cut for it.
    fn fitting(&self, lines: &[u8]) -> usize {
        let Some(limits) = self.limits else { return lines.len() };
        let room = usize::try_from(limits.max_size.saturating_sub(self.size)).unwrap_or(usize::MAX);
        let end = |part: &[u8]| part.iter().rposition(|byte| *byte == b'\n').map(|place| place + 1);
        let first = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |place| place + 1);
        lines.get(..room.min(lines.len())).and_then(end).unwrap_or(first)
    }

    fn append_to_file(&mut self, lines: &[u8]) {
        if self.cut {
            self.cut = self.write(b"\n") == 0;
        }
        let written = self.write(lines);
        if let Some((_, rest)) = lines.split_at_checked(written).filter(|(_, rest)| !rest.is_empty()) {
            self.lost.bytes += u64::try_from(rest.len()).unwrap_or(0);
            self.cut |= written > 0 && lines.get(written - 1) != Some(&b'\n');
        }
    }

    /// A message on dropped output.
    pub(crate) fn complaint(&self) -> Option<String> {
        let why = self.lost.why.as_ref()?;
        Some(format!("{} bytes of the log were not written: {why}", self.lost.bytes))
    }

    /// As much as can be written; how much that was.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => break,
                Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if self.lost.why.is_none() {
                        note(format_args!("cannot write {}: {error}", self.path.display()));
                    }
                    self.lost.why = Some(error);
                    break;
                }
            }
        }
        let written = bytes.len() - rest.len();
        self.size += u64::try_from(written).unwrap_or(0);
        written
    }

    fn rotate_before(&mut self, more: usize) {
        let Some(limits) = self.limits else { return };
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        if self.size == 0 || self.size.saturating_add(more) <= limits.max_size {
            return;
        }
        if let Err(error) = self.rotate(limits.max_files) {
            // One attempt for each file that would be full: a failed rotation is not repeated with every line.
            self.size = 0;
            note(format_args!("cannot rotate {}: {error}", self.path.display()));
        }
    }

    fn rotate(&mut self, kept: u32) -> io::Result<()> {
        let (dir, name) = (directory(&self.path)?, name(&self.path)?);
        if kept == 0 {
            unlinkat(&dir, name, AtFlags::empty())?;
            return self.reopen();
        }
        for number in (1..kept).rev() {
            match renameat(&dir, numbered(name, number), &dir, numbered(name, number + 1)) {
                Err(errno) if errno != Errno::NOENT => return Err(errno.into()),
                _ => {}
            }
        }
        renameat(&dir, name, &dir, numbered(name, 1))?;
        self.reopen()
    }
}

fn numbered(name: &OsStr, number: u32) -> OsString {
    let mut numbered = name.to_owned();
    numbered.push(format!(".{number}"));
    numbered
}

fn name(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::Error::other("it ends with no name of a file"))
}

/// The directory of a log, created if it is missing. The last two components are the container's and the pod's, and a
/// pod may have them as volumes that it can write to: a link in the place of one is an error, or root would write and
/// remove files in a directory of the pod's choice.
fn directory(path: &Path) -> io::Result<Dir> {
    let dir = path.parent().ok_or_else(|| io::Error::other("it is in no directory"))?;
    let above = dir.ancestors().nth(2).unwrap_or(Path::new("/"));
    std::fs::create_dir_all(above)?;
    let rest = dir.strip_prefix(above).map_err(io::Error::other)?;
    let made = Dir::open(above).and_then(|above| above.make_dirs(rest, DirMode { mode: 0o755, owner: None }));
    made.map_err(io::Error::other)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let dir = directory(path)?;
    // The pod may be able to write to the directory: a link, a pipe or a terminal in the log's place is neither
    // followed nor waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = File::from(openat(&dir, name(path)?, flags, Mode::from_raw_mode(0o640))?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, found.len()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_log_is_made_with_its_directory_and_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pod/container/0.log");
        Log::open(&path, None).unwrap().append(b"one\n");
        Log::open(&path, None).unwrap().append(b"two\n");
        assert_eq!(read(&path), "one\ntwo\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o137, 0);
    }

    #[test]
    fn a_log_that_was_moved_away_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("0.log"), dir.path().join("moved"));
        let mut log = Log::open(&path, None).unwrap();
        log.append(b"one\n");
        std::fs::rename(&path, &moved).unwrap();
        log.append(b"two\n");
        log.reopen().unwrap();
        log.append(b"three\n");
        assert_eq!((read(&moved), read(&path)), ("one\ntwo\n".to_owned(), "three\n".to_owned()));
    }

    #[test]
    fn a_log_that_has_grown_too_large_is_kept_under_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = Log::open(&path, Some(LogLimits { max_size: 11, max_files: 2 })).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "this is longer\n", "six\n"] {
            log.append(line.as_bytes());
        }
        let numbered = |number: u32| dir.path().join(format!("0.log.{number}"));
        assert_eq!(read(&path), "six\n");
        assert_eq!(read(&numbered(1)), "this is longer\n");
        assert_eq!(read(&numbered(2)), "three\nfour\n");
        assert!(!numbered(3).exists());
    }

    #[test]
    fn with_no_file_kept_the_log_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = Log::open(&path, Some(LogLimits { max_size: 5, max_files: 0 })).unwrap();
        log.append(b"one\n");
        log.append(b"two\n");
        assert_eq!(read(&path), "two\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// `/dev/full` says what a full disk says.
    #[test]
    fn what_cannot_be_written_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(&dir.path().join("0.log"), None).unwrap();
        log.file = File::options().append(true).open("/dev/full").unwrap();
        log.append(b"1234\n");
        log.append(b"5678\n");
        assert_eq!(
            log.complaint().unwrap(),
            "10 bytes of the log were not written: No space left on device (os error 28)"
        );
    }

    #[test]
    fn what_stands_in_the_logs_place_is_neither_followed_nor_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let [link, pipe, elsewhere] = ["link", "pipe", "elsewhere"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&link, &pipe, &PathBuf::from("/dev/null")] {
            assert!(Log::open(path, None).is_err(), "{}", path.display());
        }
        assert!(!elsewhere.exists());
    }
}
