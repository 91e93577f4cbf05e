use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::dir::LogDir;
use super::files::LogFile;
use super::instance::{InstanceLog, Position, last_lines};
use super::line::{Line, Lines};

/// Number of bytes of one read.
const PIECE: u64 = 64 << 10;
/// A longer line is skipped: runtimes split lines long before.
const LONGEST: usize = 1 << 20;

/// Reads the logs of one container, one file after the other, also while they are rotated.
///
/// It uses bounded memory: [`read`](Self::read) returns a piece; call it until it returns nothing.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    /// The only instance that is read; `None` for all.
    attempt: Option<u32>,
    reading: Option<Reading>,
    /// Remaining number of bytes to read; `None` for a log that is followed.
    left: Option<u64>,
}

/// A file that is being read. It is kept open, so that it is read to its end even if it is renamed or
/// removed.
#[derive(Debug)]
struct Reading {
    attempt: u32,
    file: File,
    /// The beginning of a line whose end is not written yet.
    pending: Vec<u8>,
    /// Whether the rest of the line is skipped, because it is too long.
    skips: bool,
}

/// The file after another one.
enum Next {
    File(LogFile),
    /// There is none yet.
    None,
}

impl Reader {
    /// Reads the logs in a container's log directory from the beginning, and follows them as they grow.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), attempt: None, reading: None, left: None }
    }

    /// Reads only as many bytes as the logs have now: a container may write faster than its log is read.
    #[must_use]
    pub fn up_to_now(dir: &Path) -> Self {
        // A directory that cannot be read counts as empty here; `read` reports the error.
        let sizes = LogDir::open(dir).and_then(|dir| {
            let size = |log| Ok(dir.stat(log)?.map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0)));
            dir.logs()?.into_iter().filter(|log| log.is_text()).map(size).collect::<io::Result<Vec<u64>>>()
        });
        let left = sizes.unwrap_or_default().into_iter().fold(0, u64::saturating_add);
        Self { left: Some(left), ..Self::new(dir) }
    }

    /// Reads only what is written from now on.
    #[must_use]
    pub fn from_now(dir: &Path) -> Self {
        let newest = LogDir::open(dir).and_then(|dir| match dir.logs()?.last() {
            Some(newest) => Reading::open(&dir, *newest),
            None => Ok(None),
        });
        // A log that cannot be read counts as empty here; `read` reports the error.
        let at_end = |mut reading: Reading| reading.file.seek(SeekFrom::End(0)).ok().map(|_| reading);
        Self { reading: newest.ok().flatten().and_then(at_end), ..Self::new(dir) }
    }

    /// Reads the log of one instance of a container, with its rotated files.
    ///
    /// # Errors
    /// If a log cannot be read. A log that does not exist counts as empty.
    pub fn of_instance(dir: &Path, wanted: InstanceLog) -> io::Result<Self> {
        let mut reader = Self { attempt: Some(wanted.attempt), ..Self::new(dir) };
        let dir = LogDir::open(dir)?;
        let mut logs = reader.listed(&dir)?;
        let start = wanted.last_lines.map(|lines| last_lines(&dir, &logs, lines)).transpose()?.flatten();
        if let Some(Position { log, offset }) = start {
            logs.retain(|one| *one >= log);
            reader.reading = Reading::open(&dir, log)?;
            if let Some(reading) = &mut reader.reading {
                reading.file.seek(SeekFrom::Start(offset))?;
            }
        }
        if !wanted.follow {
            let size = |log| Ok(dir.stat(log)?.map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0)));
            let sizes = logs.into_iter().map(size).collect::<io::Result<Vec<u64>>>()?;
            let all = sizes.into_iter().fold(0, u64::saturating_add);
            reader.left = Some(all.saturating_sub(start.map_or(0, |start| start.offset)));
        }
        Ok(reader)
    }

    /// The files to read, oldest first.
    fn listed(&self, dir: &LogDir) -> io::Result<Vec<LogFile>> {
        let mut logs = dir.logs()?;
        // What is compressed is not read, as by a kubelet.
        logs.retain(|log| log.is_text() && self.attempt.is_none_or(|attempt| log.attempt == attempt));
        Ok(logs)
    }

    /// A piece of the output since the last call; empty if there is no more.
    ///
    /// # Errors
    /// If a log cannot be read. A log that does not exist counts as empty.
    pub fn read(&mut self) -> io::Result<Vec<Line>> {
        loop {
            // Search for a later file before this one is read: if there is one, this one will not grow any
            // more, and the read reaches its final end.
            let dir = LogDir::open(&self.dir)?;
            let listed = self.listed(&dir)?;
            let Some(reading) = &mut self.reading else {
                let Some(first) = listed.first() else { return Ok(Vec::new()) };
                match Reading::open(&dir, *first)? {
                    Some(opened) => self.reading = Some(opened),
                    None => return Ok(Vec::new()),
                }
                continue;
            };
            let most = self.left.unwrap_or(PIECE).min(PIECE);
            let (read, lines) = reading.read(most)?;
            self.left = self.left.map(|left| left.saturating_sub(read));
            if !lines.is_empty() || self.left == Some(0) {
                return Ok(lines);
            }
            if read > 0 {
                continue;
            }
            let next = match reading.next(&dir, &listed)? {
                Next::File(next) => Reading::open(&dir, next)?,
                Next::None => None,
            };
            match next {
                Some(opened) => self.reading = Some(opened),
                None => return Ok(Vec::new()),
            }
        }
    }
}

impl Reading {
    /// Opens a log; `None` if it has just been renamed or removed.
    fn open(dir: &LogDir, log: LogFile) -> io::Result<Option<Self>> {
        let reading = |file| Self { attempt: log.attempt, file, pending: Vec::new(), skips: false };
        Ok(dir.read(log)?.map(reading))
    }

    /// Reads up to `most` bytes. Returns the number of bytes and the lines that they complete.
    fn read(&mut self, most: u64) -> io::Result<(u64, Vec<Line>)> {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self.file).take(most).read_to_end(&mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        let mut fresh = bytes.as_slice();
        if self.skips {
            let end = fresh.iter().position(|byte| *byte == b'\n');
            self.skips = end.is_none();
            fresh = end.and_then(|end| fresh.get(end + 1..)).unwrap_or_default();
        }
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let (whole, rest) = fresh.split_at_checked(whole).unwrap_or((fresh, &[]));
        let mut lines = Vec::new();
        if !whole.is_empty() {
            self.pending.extend_from_slice(whole);
            lines.extend(Lines::over(&self.pending));
            self.pending.clear();
        }
        self.pending.extend_from_slice(rest);
        if self.pending.len() > LONGEST {
            self.pending = Vec::new();
            self.skips = true;
        }
        Ok((read, lines))
    }

    /// The file after this one among those that were listed.
    fn next(&self, dir: &LogDir, listed: &[LogFile]) -> io::Result<Next> {
        let own = self.file.metadata()?;
        let later = listed.iter().copied().filter(|log| log.attempt >= self.attempt);
        let is_own = |log: &LogFile| {
            let is_same = |found: Stat| (found.st_dev, found.st_ino) == (own.dev(), own.ino());
            log.attempt == self.attempt && dir.stat(*log).is_ok_and(|found| found.is_some_and(is_same))
        };
        let mut from_own = later.clone().skip_while(|log| !is_own(log));
        let next = match (from_own.next(), own.nlink()) {
            (Some(_), _) => from_own.next(),
            // It was removed as the oldest: all remaining files are newer.
            (None, 0) => later.clone().next(),
            // It was renamed while the directory was listed.
            (None, _) => None,
        };
        Ok(next.map_or(Next::None, Next::File))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::super::line::Stream;
    use super::*;

    struct Logs(tempfile::TempDir);

    impl Logs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn append(&self, name: &str, text: &str) {
            let mut file =
                OpenOptions::new().create(true).append(true).open(self.0.path().join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn rotate(&self, to: &str) {
            fs::rename(self.0.path().join("0.log"), self.0.path().join(to)).unwrap();
        }

        fn remove(&self, name: &str) {
            fs::remove_file(self.0.path().join(name)).unwrap();
        }
    }

    /// Reads until there is no more.
    fn all(reader: &mut Reader) -> Vec<(Stream, String)> {
        let mut all = Vec::new();
        loop {
            let lines = reader.read().unwrap();
            if lines.is_empty() {
                return all;
            }
            all.extend(lines.into_iter().map(|line| (line.stream, String::from_utf8(line.text).unwrap())));
        }
    }

    fn texts(reader: &mut Reader) -> String {
        all(reader).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn output_comes_in_order_over_restarts_and_half_lines() {
        let logs = Logs::new();
        let mut reader = Reader::new(logs.0.path());
        assert!(all(&mut reader).is_empty());
        logs.append("0.log", "t1 stdout F one\nt2 stderr P tw");
        assert_eq!(all(&mut reader), [(Stream::Stdout, "one\n".to_owned())]);
        logs.append("0.log", "o\nt3 stdout F \n");
        logs.append("1.log", "t4 stdout F again\n");
        let rest = [(Stream::Stderr, "two"), (Stream::Stdout, "\n"), (Stream::Stdout, "again\n")];
        assert_eq!(all(&mut reader), rest.map(|(s, t)| (s, t.to_owned())));
        assert!(all(&mut reader).is_empty());
    }

    #[test]
    fn nothing_is_lost_or_doubled_over_rotations() {
        let logs = Logs::new();
        let mut reader = Reader::new(logs.0.path());
        logs.append("0.log", "t stdout F 1\n");
        assert_eq!(texts(&mut reader), "1\n");
        // Renamed: the runtime writes to the renamed file until it is asked to reopen the log.
        logs.rotate("0.log.1");
        logs.append("0.log.1", "t stdout F 2\n");
        assert_eq!(texts(&mut reader), "2\n");
        logs.append("0.log.1", "t stdout F 3\n");
        logs.append("0.log", "t stdout F 4\n");
        assert_eq!(texts(&mut reader), "3\n4\n");
        // Two rotations between two reads.
        logs.append("0.log", "t stdout F 5\n");
        logs.rotate("0.log.2");
        logs.append("0.log", "t stdout F 6\n");
        logs.rotate("0.log.3");
        logs.append("0.log", "t stdout F 7\n");
        assert_eq!(texts(&mut reader), "5\n6\n7\n");
        // Rotated and removed: the open file is read to its end, then the remaining files from the oldest.
        logs.append("0.log", "t stdout F 8\n");
        logs.rotate("0.log.4");
        logs.append("0.log", "t stdout F lost\n");
        logs.rotate("0.log.5");
        logs.append("0.log", "t stdout F 9\n");
        for number in 1..=5 {
            logs.remove(&format!("0.log.{number}"));
        }
        assert_eq!(texts(&mut reader), "8\n9\n");
        assert_eq!(texts(&mut Reader::new(logs.0.path())), "9\n");
    }

    #[test]
    fn what_is_there_now_has_an_end_however_fast_it_grows() {
        let logs = Logs::new();
        logs.append("0.log", "t stdout F one\nt stdout F two\n");
        let mut reader = Reader::up_to_now(logs.0.path());
        logs.append("0.log", "t stdout F three\n");
        logs.append("1.log", "t stdout F four\n");
        assert_eq!(texts(&mut reader), "one\ntwo\n");
        assert_eq!(texts(&mut reader), "");
    }

    #[test]
    fn a_reader_from_now_on_skips_what_is_there_and_follows_rotations_and_restarts() {
        let logs = Logs::new();
        let mut early = Reader::from_now(logs.0.path());
        logs.append("0.log", "t stdout F old\n");
        logs.append("1.log", "t stdout F older instance\n");
        let mut reader = Reader::from_now(logs.0.path());
        assert_eq!(texts(&mut reader), "");
        logs.append("1.log", "t stdout F new\n");
        logs.append("2.log", "t stdout F next instance\n");
        assert_eq!(texts(&mut reader), "new\nnext instance\n");
        assert_eq!(texts(&mut early), "old\nolder instance\nnew\nnext instance\n");
    }

    #[test]
    fn one_instance_is_read_from_its_last_lines_on() {
        let logs = Logs::new();
        let log = |last_lines, follow| {
            let wanted = InstanceLog { attempt: 1, last_lines, follow };
            Reader::of_instance(logs.0.path(), wanted).unwrap()
        };
        assert_eq!(texts(&mut log(Some(3), false)), "");
        logs.append("0.log", "t stdout F before\n");
        logs.append("1.log.1", "t stdout F 1\nt stdout F 2\n");
        logs.append("1.log", "t stdout F 3\nt stdout F 4\n");
        logs.append("2.log", "t stdout F after\n");
        let read = |lines| texts(&mut log(lines, false));
        assert_eq!([None, Some(9), Some(4)].map(read), ["1\n2\n3\n4\n"; 3]);
        assert_eq!([Some(3), Some(2)].map(read), ["2\n3\n4\n", "3\n4\n"]);
        assert_eq!([Some(1), Some(0)].map(read), ["4\n", ""]);
        let [mut one, mut none, mut ends] = [log(Some(1), true), log(Some(0), true), log(None, false)];
        logs.append("1.log", "t stdout F 5\n");
        assert_eq!([&mut one, &mut none, &mut ends].map(texts), ["4\n5\n", "5\n", "1\n2\n3\n4\n"]);
        let long = format!("t stdout F {}\n", "x".repeat(100_000));
        logs.append("1.log", &long.repeat(3));
        assert_eq!(texts(&mut log(Some(2), false)).len(), 2 * 100_001);
    }

    #[test]
    fn the_log_of_an_instance_is_not_read_through_a_link() {
        let logs = Logs::new();
        let victim = logs.0.path().join("victim");
        fs::write(&victim, "t stdout F secret\n").unwrap();
        std::os::unix::fs::symlink(&victim, logs.0.path().join("0.log")).unwrap();
        let wanted = InstanceLog { attempt: 0, last_lines: Some(1), follow: false };
        assert_eq!(texts(&mut Reader::of_instance(logs.0.path(), wanted).unwrap()), "");
    }

    #[test]
    fn a_line_without_an_end_is_left_out_and_what_follows_is_not() {
        let logs = Logs::new();
        logs.append("0.log", &"x".repeat(3 * LONGEST));
        let mut reader = Reader::new(logs.0.path());
        assert_eq!(texts(&mut reader), "");
        assert!(reader.reading.as_ref().unwrap().pending.capacity() <= 2 * LONGEST);
        logs.append("0.log", " more\nt stdout F next\n");
        assert_eq!(texts(&mut reader), "next\n");
    }
}
