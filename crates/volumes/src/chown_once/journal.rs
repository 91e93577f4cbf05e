use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use durable::AtomicFile;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Identity};
use super::error::Error;
use super::shift::Shift;

const FIRST: &str = "wardlet-chown-once 1";
const DONE: &str = "done\n";

/// What a journal is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) shift: Shift,
    pub(crate) root: Identity,
}

/// A journal that is being written. Nothing counts before it is [kept](NewJournal::keep).
pub(crate) struct NewJournal<'a> {
    path: &'a Path,
    out: BufWriter<File>,
    sum: Hasher,
    count: u64,
}

impl<'a> NewJournal<'a> {
    pub(crate) fn begin(path: &'a Path, header: &Header) -> Result<Self, Error> {
        let new = new_path(path);
        let file = AtomicFile::at(path).begin().map_err(step)?;
        let mut journal = Self { path, out: BufWriter::new(file), sum: Hasher::new(), count: 0 };
        let header =
            serde_json::to_string(header).map_err(io::Error::other).map_err(failed("write", &new))?;
        journal.line(FIRST)?;
        journal.line(&header)?;
        Ok(journal)
    }

    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), Error> {
        self.count += 1;
        self.line(&entry.line())
    }

    fn line(&mut self, text: &str) -> Result<(), Error> {
        let line = format!("{text}\n");
        self.sum.update(line.as_bytes());
        self.out.write_all(line.as_bytes()).map_err(failed("write", &new_path(self.path)))
    }

    /// Puts it, whole and on disk, in the place of any before it.
    pub(crate) fn keep(self) -> Result<(), Error> {
        let Self { path, mut out, sum, count } = self;
        let seal = || -> io::Result<File> {
            writeln!(out, "end {count} {:08x}", sum.finalize())?;
            out.into_inner().map_err(io::IntoInnerError::into_error)
        };
        let file = seal().map_err(failed("write", path))?;
        AtomicFile::at(path).finish(&file).map_err(step)
    }
}

/// A journal that was kept.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    pub(crate) header: Header,
    /// Where the line after the last sealed one begins.
    sealed: u64,
    pub(crate) is_done: bool,
}

impl Journal {
    /// Reads and checks all of it; none there is an answer too.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", path)(error)),
        };
        let damaged = |why| Error::Damaged { journal: path.to_owned(), why };
        let mut lines = Lines::new(file);
        let read = |lines: &mut Lines| lines.next().map_err(failed("read", path));
        if read(&mut lines)?.as_deref() != Some(FIRST) {
            return Err(damaged("it is of no version that is known"));
        }
        let header: Header = read(&mut lines)?
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| damaged("its header cannot be read"))?;
        let mut count = 0u64;
        loop {
            let sum = lines.sum.clone().finalize();
            let line = read(&mut lines)?.ok_or_else(|| damaged("it has no end"))?;
            if let Some(end) = line.strip_prefix("end ") {
                if end != format!("{count} {sum:08x}") {
                    return Err(damaged("its sum is wrong"));
                }
                break;
            }
            count += 1;
        }
        let sealed = lines.read;
        let is_done = read(&mut lines)?.as_deref() == DONE.strip_suffix('\n');
        Ok(Some(Self { path: path.to_owned(), header, sealed, is_done }))
    }

    /// Its entries, in their order.
    pub(crate) fn entries(&self) -> Result<impl Iterator<Item = Result<Entry, Error>> + use<'_>, Error> {
        let file = File::open(&self.path).map_err(failed("open", &self.path))?;
        let lines = BufReader::new(file).lines().skip(2);
        let parsed = lines.map(|line| line.map_err(failed("read", &self.path))).map(|line| {
            let damaged = || Error::Damaged { journal: self.path.clone(), why: "an entry cannot be read" };
            line.and_then(|line| match line.starts_with("end ") {
                true => Ok(None),
                false => Entry::parse(&line).map(Some).ok_or_else(damaged),
            })
        });
        Ok(parsed.map_while(Result::transpose))
    }

    /// Records that every entry is done, after all of it is on disk.
    pub(crate) fn mark_done(&self) -> Result<(), Error> {
        let mark = || -> io::Result<()> {
            let mut file = File::options().write(true).open(&self.path)?;
            // A mark cut short by a crash goes first.
            file.set_len(self.sealed)?;
            file.seek(SeekFrom::Start(self.sealed))?;
            file.write_all(DONE.as_bytes())?;
            file.sync_all()
        };
        mark().map_err(failed("write", &self.path))
    }

    /// Nothing is left to know about the tree.
    pub(crate) fn remove(self) -> Result<(), Error> {
        durable::remove(&self.path).map(drop).map_err(step)
    }
}

struct Lines {
    from: BufReader<File>,
    sum: Hasher,
    read: u64,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { from: BufReader::new(file), sum: Hasher::new(), read: 0 }
    }

    /// The next whole line. One without its end is none.
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = vec![];
        let length = self.from.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        self.read += u64::try_from(length).unwrap_or(u64::MAX);
        self.sum.update(&line);
        self.sum.update(b"\n");
        Ok(String::from_utf8(line).ok())
    }
}

fn new_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

pub(super) fn step(error: durable::Error) -> Error {
    match error {
        durable::Error::Io { action, path, cause } => failed(action, &path)(cause),
        durable::Error::Damaged { ref path, .. }
        | durable::Error::Version { ref path, .. }
        | durable::Error::TooLarge { ref path, .. }
        | durable::Error::Untrusted { ref path, .. }
        | durable::Error::Locked { ref path, .. } => failed("use", path)(io::Error::other(error.to_string())),
    }
}

fn failed(step: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Error::Step { step, path: path.clone(), errno }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::chown_once::shift::Direction;
    use crate::payload::Mode;

    /// A journal as version 1 writes it; to be read for ever.
    const VERSION_1: &str = r#"wardlet-chown-once 1
{"shift":{"direction":"give","uids":[{"hostId":131072,"containerId":0,"length":65536}],"gids":[{"hostId":196608,"containerId":0,"length":65536}]},"root":{"ino":11,"born":1700000000000000000}}
17 1700000000000000001 1000 0 4755 0100000200200000000000000000000000000000 a%20dir/tool
11 1700000000000000000 0 0 0755 - .
end 2 fc1b02b7
"#;

    fn opened(text: &str) -> Result<Option<(Journal, Vec<Entry>)>, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        fs::write(&path, text).unwrap();
        let Some(journal) = Journal::open(&path)? else { return Ok(None) };
        let entries = journal.entries()?.collect::<Result<_, _>>()?;
        Ok(Some((journal, entries)))
    }

    #[test]
    fn a_journal_of_version_1_is_read() {
        let (journal, entries) = opened(VERSION_1).unwrap().unwrap();
        assert_eq!(journal.header.shift.direction, Direction::Give);
        assert_eq!(journal.header.root, Identity { ino: 11, born: Some(1_700_000_000_000_000_000) });
        assert!(!journal.is_done);
        let shown: Vec<_> = entries.iter().map(|e| (e.path.to_str().unwrap(), e.uid, e.mode)).collect();
        assert_eq!(shown, [("a dir/tool", 1000, Mode::cut(0o4755)), ("", 0, Mode::DIRECTORY)]);
        assert_eq!(entries[0].capability.as_ref().map(Vec::len), Some(20));
    }

    #[test]
    fn a_journal_is_written_as_it_is_read() {
        let (journal, entries) = opened(VERSION_1).unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut new = NewJournal::begin(&path, &journal.header).unwrap();
        entries.iter().for_each(|entry| new.add(entry).unwrap());
        assert!(Journal::open(&path).unwrap().is_none(), "nothing counts before it is kept");
        new.keep().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), VERSION_1);
        Journal::open(&path).unwrap().unwrap().mark_done().unwrap();
        assert!(Journal::open(&path).unwrap().unwrap().is_done);
    }

    #[test]
    fn a_mark_that_was_cut_short_is_none_and_is_set_again() {
        for cut in ["d", "done"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("journal");
            fs::write(&path, format!("{VERSION_1}{cut}")).unwrap();
            let journal = Journal::open(&path).unwrap().unwrap();
            assert!(!journal.is_done);
            journal.mark_done().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{VERSION_1}done\n"));
        }
    }

    #[test]
    fn a_journal_with_any_byte_changed_or_missing_is_not_believed() {
        for at in 0..VERSION_1.len() {
            let mut spoiled = VERSION_1.as_bytes().to_vec();
            spoiled[at] ^= 1;
            let text = String::from_utf8_lossy(&spoiled).into_owned();
            assert!(matches!(opened(&text), Err(Error::Damaged { .. })), "byte {at}");
            let cut = VERSION_1.get(..at).unwrap();
            assert!(matches!(opened(cut), Err(Error::Damaged { .. })), "cut at {at}");
        }
    }
}
