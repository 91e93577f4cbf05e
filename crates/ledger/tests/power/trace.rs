//! The writes and syncs of a run of the actor, as strace saw them.

use std::path::Path;

use crate::crash::traced;

/// What a run did to the files of its ledger, or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Opened to be made if it is not there.
    Create(String),
    /// Opened to be empty.
    Empty(String),
    Write {
        name: String,
        offset: usize,
        bytes: Vec<u8>,
    },
    Append {
        name: String,
        bytes: Vec<u8>,
    },
    Truncate(String, usize),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    SyncFile(String),
    SyncDir,
    Said(String),
}

const CALLS: &str = "trace=openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,\
                     fallocate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync,\
                     sync_file_range,msync,copy_file_range,sendfile";

/// Whether power can be lost on this file: the shared-memory index is never trusted after a reboot,
/// and a lock has no content.
pub fn counts(name: &str) -> bool {
    !name.ends_with("-shm") && name != "ledger.lock"
}

/// Runs the actor on `dir` and returns what it did, in order.
pub fn record(dir: &Path, words: &[String]) -> Vec<Op> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = ["-y", "-xx", "-s", "10000000", "-e", CALLS, "-o", log.path().to_str().unwrap()];
    let done = traced(&options, dir, words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(log.path()).unwrap();
    text.lines().flat_map(|line| parse(line, dir)).collect()
}

/// One line such as `123 pwrite64(4</dir/ledger.db>, "\x53", 1, 0) = 1`.
fn parse(line: &str, dir: &Path) -> Vec<Op> {
    let Some((_, call)) = line.split_once(' ') else { return vec![] };
    let call = call.trim_start();
    let Some((name, rest)) = call.split_once('(') else { return vec![] };
    assert!(!rest.contains("unfinished"), "two threads at once cannot be replayed: {name}");
    let Some((arguments, result)) = rest.rsplit_once(" = ") else { return vec![] };
    if result.starts_with('-') || result.starts_with('?') {
        return vec![];
    }
    let arguments = Arguments::split(arguments.trim_end().strip_suffix(')').unwrap(), dir);
    ops(name, &arguments)
}

fn ops(call: &str, a: &Arguments<'_>) -> Vec<Op> {
    let number = |i: usize| a.words[i].parse::<usize>().unwrap();
    match call {
        "openat" => a.file_at(1).map_or(vec![], |name| {
            let flags = a.words[2];
            let mut ops = vec![];
            if flags.contains("O_CREAT") {
                ops.push(Op::Create(name.clone()));
            }
            if flags.contains("O_TRUNC") {
                ops.push(Op::Empty(name));
            }
            ops
        }),
        "write" if a.words[0].starts_with("1<") => vec![Op::Said(String::from_utf8(a.bytes(1)).unwrap())],
        "write" => a.file_at(0).map_or(vec![], |name| vec![Op::Append { name, bytes: a.bytes(1) }]),
        "pwrite64" => {
            a.file_at(0).map_or(vec![], |name| vec![Op::Write { name, offset: number(3), bytes: a.bytes(1) }])
        }
        "ftruncate" => a.file_at(0).map_or(vec![], |name| vec![Op::Truncate(name, number(1))]),
        "rename" => match (a.file_at(0), a.file_at(1)) {
            (Some(from), Some(to)) => vec![Op::Rename(from, to)],
            _ => vec![],
        },
        "linkat" => match (a.file_at(1), a.file_at(3)) {
            (Some(from), Some(to)) => vec![Op::Link(from, to)],
            _ => vec![],
        },
        "unlink" => a.file_at(0).map_or(vec![], |name| vec![Op::Unlink(name)]),
        "fsync" | "fdatasync" if a.is_dir(0) => vec![Op::SyncDir],
        "fsync" | "fdatasync" => a.file_at(0).map_or(vec![], |name| vec![Op::SyncFile(name)]),
        _ => {
            let ours = (0..a.words.len()).any(|i| a.file_at(i).is_some());
            assert!(!ours, "{call} on a file of the ledger is not understood: {:?}", a.words);
            vec![]
        }
    }
}

struct Arguments<'a> {
    words: Vec<&'a str>,
    dir: &'a Path,
}

impl<'a> Arguments<'a> {
    /// Commas inside quotes and angles are hexadecimal here, so that every comma is a real one.
    fn split(text: &'a str, dir: &'a Path) -> Self {
        Self { words: text.split(", ").collect(), dir }
    }

    fn path(&self, i: usize) -> Option<String> {
        let word = self.words.get(i)?;
        let inner = match word.split_once('<') {
            Some((_, named)) => named.split('>').next()?,
            None => word.strip_prefix('"')?.strip_suffix('"')?,
        };
        String::from_utf8(unescape(inner)).ok()
    }

    /// The name of a file of the ledger that can lose power.
    fn file_at(&self, i: usize) -> Option<String> {
        let path = self.path(i)?;
        let name = path.strip_prefix(self.dir.to_str().unwrap())?.strip_prefix('/')?;
        counts(name).then(|| name.to_owned())
    }

    fn is_dir(&self, i: usize) -> bool {
        self.path(i).is_some_and(|p| Path::new(&p) == self.dir)
    }

    fn bytes(&self, i: usize) -> Vec<u8> {
        let word = self.words[i];
        assert!(!word.ends_with("..."), "strace cut the data short");
        unescape(word.trim_matches('"'))
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        match rest.strip_prefix(b"\\x") {
            Some(hex) => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&hex[..2]).unwrap(), 16).unwrap());
                rest = &hex[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}
