//! The logs that runtimes write: `TIME STREAM TAG TEXT`, a line of output in one or more lines of the file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Where a container's output went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, as the runtime wrote it.
    pub time: String,
    /// Where it went.
    pub stream: Stream,
    /// What; ends with a newline where the output did.
    pub text: String,
}

/// The lines of a log that is whole.
pub(crate) struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    pub(crate) fn over(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let (line, rest) = self.0.split_at_checked(end)?;
            self.0 = rest.get(1..).unwrap_or_default();
            if let Some(line) = parsed(&String::from_utf8_lossy(line)) {
                return Some(line);
            }
        }
    }
}

fn parsed(line: &str) -> Option<Line> {
    let (time, rest) = line.split_once(' ')?;
    let (stream, rest) = rest.split_once(' ')?;
    let (tag, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let stream = match stream {
        "stdout" => Stream::Stdout,
        "stderr" => Stream::Stderr,
        _ => return None,
    };
    // P is a part: the output goes on in the next line.
    let is_part = tag.split(':').any(|word| word == "P");
    let text = if is_part { text.to_owned() } else { format!("{text}\n") };
    Some(Line { time: time.to_owned(), stream, text })
}

/// The logs of one container, one file after the other.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    /// Which attempt is read.
    attempt: Option<u32>,
    offset: u64,
    pending: Vec<u8>,
}

impl Reader {
    /// Those in the container's log directory, from the beginning.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), attempt: None, offset: 0, pending: Vec::new() }
    }

    /// From the newest attempt on, not from the first.
    #[must_use]
    pub fn newest(dir: &Path) -> Self {
        let attempt = attempts(dir).into_iter().next_back();
        Self { attempt, ..Self::new(dir) }
    }

    /// What has been written since the last call.
    ///
    /// # Errors
    /// If a log cannot be read. One that is not there has nothing in it.
    pub fn read(&mut self) -> io::Result<Vec<Line>> {
        let mut all = Vec::new();
        loop {
            let listed = attempts(&self.dir);
            let Some(attempt) = self.attempt.or(listed.first().copied()) else { return Ok(all) };
            self.attempt = Some(attempt);
            // Looked for before the file is read: what is then read is all that it will ever have.
            let next = listed.into_iter().find(|later| *later > attempt);
            self.read_file(attempt, &mut all)?;
            let Some(next) = next else { return Ok(all) };
            (self.attempt, self.offset) = (Some(next), 0);
            self.pending.clear();
        }
    }

    fn read_file(&mut self, attempt: u32, into: &mut Vec<Line>) -> io::Result<()> {
        let mut file = match File::open(self.dir.join(format!("{attempt}.log"))) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.read_to_end(&mut self.pending)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(0));
        let whole = self.pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.pending.split_off(whole);
        into.extend(Lines::over(&self.pending));
        self.pending = rest;
        Ok(())
    }
}

/// The attempts that have a log, from the first.
fn attempts(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_suffix(".log")?.parse().ok();
    let mut all: Vec<u32> = entries.filter_map(|e| number(e.file_name().to_str()?)).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_in_order_over_restarts_and_half_lines() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let mut reader = Reader::new(dir.path());
        assert!(reader.read().unwrap().is_empty());
        write("0.log", "t1 stdout F one\nt2 stderr P tw");
        let texts = |lines: Vec<Line>| lines.into_iter().map(|l| (l.stream, l.text)).collect::<Vec<_>>();
        assert_eq!(texts(reader.read().unwrap()), [(Stream::Stdout, "one\n".to_owned())]);
        write("0.log", "t1 stdout F one\nt2 stderr P two\nt3 stdout F \n");
        write("1.log", "t4 stdout F again\n");
        let rest = [(Stream::Stderr, "two"), (Stream::Stdout, "\n"), (Stream::Stdout, "again\n")];
        assert_eq!(texts(reader.read().unwrap()), rest.map(|(s, t)| (s, t.to_owned())));
        assert!(reader.read().unwrap().is_empty());
        assert_eq!(
            texts(Reader::newest(dir.path()).read().unwrap()),
            [(Stream::Stdout, "again\n".to_owned())]
        );
    }
}
