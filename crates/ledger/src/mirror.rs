//! A copy of every row outside SQLite, one checked line each: what the ledger is rebuilt from.
//!
//! ```text
//! <crc32> {"Begin":{"seq":7,"rows":2,"boot":"…"}}   the rows that follow are all there were at 7
//! <crc32> {"Lease":{...}}                           those rows
//! <crc32> {"Member":{...}}
//! <crc32> {"Pair":{...}}
//! <crc32> {"Lease":{"seq":8,...}}                   every change since, none left out
//! ```
//!
//! It is written after the commit and not synced by itself: after a power loss it may lag behind the
//! database. So the first change of every boot writes it anew, and only a copy of this boot is taken for
//! complete. It can never be ahead of the database. If it is, the database has lost rows.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ids::allocator::LeaseId;
use serde::{Deserialize, Serialize};

use crate::clock::BootId;
use crate::db::Rows;
use crate::error::LedgerError;
use crate::holder::Holder;
use crate::row::{LeaseRow, MemberRow, PairRow, Standing};

/// The least number of changes since the last snapshot after which a new one is made.
const COMPACT_AFTER: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Begin { seq: u64, rows: u64, boot: BootId },
    Lease(LeaseRow),
    Member(MemberRow),
    Pair(PairRow),
}

impl Line {
    /// The number of its change; that of a whole snapshot for its head.
    fn seq(&self) -> u64 {
        match self {
            Self::Begin { seq, .. }
            | Self::Lease(LeaseRow { seq, .. })
            | Self::Member(MemberRow { seq, .. })
            | Self::Pair(PairRow { seq, .. }) => *seq,
        }
    }
}

/// A line for each row, by the number of its change.
fn lines_of(rows: Rows) -> Vec<Line> {
    let leases = rows.leases.into_iter().map(Line::Lease);
    let members = rows.members.into_iter().map(Line::Member);
    let mut lines: Vec<Line> = leases.chain(members).chain(rows.pairs.into_iter().map(Line::Pair)).collect();
    lines.sort_by_key(Line::seq);
    lines
}

#[derive(Debug)]
pub(crate) struct Mirror {
    path: PathBuf,
    boot: BootId,
    /// Length and tail after the last write of this process. While the length is the same, no other process has
    /// written.
    known: Option<(u64, Tail)>,
    /// Changes since the last snapshot, by any process, and the number of rows of that snapshot. Short-lived processes
    /// that make one change each must take a snapshot in time, too.
    appended: u64,
    rows: u64,
}

/// How far the copy goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) seq: u64,
    /// Whether it was begun in this boot, so that no power loss can have cost it lines.
    pub(crate) of_this_boot: bool,
}

/// What the copy says.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) seq: u64,
    pub(crate) rows: Rows,
    /// Whether every line was there and whole, and of this boot, so that what it does not mention was
    /// never leased.
    pub(crate) whole: bool,
}

impl Mirror {
    pub(crate) fn new(path: &Path, boot: BootId) -> Self {
        Self { path: path.to_owned(), boot, known: None, appended: 0, rows: 0 }
    }

    /// How far the copy goes, or `None` if it is missing or its end is torn.
    pub(crate) fn tail(&mut self) -> Option<Tail> {
        let file = File::open(&self.path).ok()?;
        let length = file.metadata().ok()?.len();
        match self.known {
            Some((known, tail)) if known == length => Some(tail),
            _ => {
                let seq = read_tail(&file, length)?;
                let begin = read_begin(&file);
                let of_this_boot = begin.as_ref().is_some_and(|b| b.boot == self.boot);
                self.appended = seq.saturating_sub(begin.as_ref().map_or(seq, |b| b.seq));
                self.rows = begin.map_or(0, |b| b.rows);
                let tail = Tail { seq, of_this_boot };
                self.known = Some((length, tail));
                Some(tail)
            }
        }
    }

    /// Adds the rows of one commit. Whatever goes wrong here costs only the copy, which is then
    /// written anew by the next commit.
    pub(crate) fn append(&mut self, rows: &Rows, seq: u64) -> Result<(), LedgerError> {
        let mut text = String::new();
        let lines = lines_of(rows.clone());
        for line in &lines {
            push_line(&mut text, line);
        }
        let before = self.known.take();
        let written =
            OpenOptions::new().append(true).open(&self.path).and_then(|mut f| f.write_all(text.as_bytes()));
        if let Err(e) = written {
            // A copy that lacks a change must not pass for a whole one: none is better.
            let _ = std::fs::remove_file(&self.path);
            return Err(LedgerError::io("write", &self.path, e));
        }
        self.appended += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let written = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.known = before.map(|(length, tail)| (length + written, Tail { seq, ..tail }));
        Ok(())
    }

    pub(crate) fn wants_compaction(&self) -> bool {
        self.appended >= COMPACT_AFTER.max(self.rows)
    }

    /// Writes the copy anew from all rows there are.
    pub(crate) fn rewrite(&mut self, seq: u64, rows: Rows) -> Result<(), LedgerError> {
        // The row changed last is always still there, so that the last line says where the copy stands.
        let lines = lines_of(rows);
        let mut whole = String::new();
        let rows = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        push_line(&mut whole, &Line::Begin { seq, rows, boot: self.boot.clone() });
        for line in &lines {
            push_line(&mut whole, line);
        }
        durable::write(&self.path, whole.as_bytes())?;
        self.appended = 0;
        self.rows = rows;
        let length = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        self.known = Some((length, Tail { seq, of_this_boot: true }));
        Ok(())
    }

    /// Reads all of it; `None` if there is no copy.
    pub(crate) fn read(&self) -> Result<Option<Copied>, LedgerError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => {
                let copied = replay(&bytes);
                let begin = File::open(&self.path).ok().and_then(|file| read_begin(&file));
                let of_this_boot = begin.is_some_and(|b| b.boot == self.boot);
                Ok(Some(Copied { whole: copied.whole && of_this_boot, ..copied }))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LedgerError::io("read", &self.path, e)),
        }
    }
}

fn push_line(text: &mut String, line: &Line) {
    // A row is numbers and checked text; it cannot fail to be JSON. Were it to, the empty line would
    // count as a damaged one.
    let json = serde_json::to_string(line).unwrap_or_default();
    text.push_str(&format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())));
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?;
    let (crc, json) = text.split_once(' ')?;
    let crc = u32::from_str_radix(crc, 16).ok().filter(|_| crc.len() == 8)?;
    if crc32fast::hash(json.as_bytes()) != crc {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// The line at the head of the copy: where and when its snapshot was made.
struct Begin {
    seq: u64,
    rows: u64,
    boot: BootId,
}

fn read_begin(file: &File) -> Option<Begin> {
    match parse_line(read_at(file, 0, 512)?.split(|&b| b == b'\n').next()?)? {
        Line::Begin { seq, rows, boot } => Some(Begin { seq, rows, boot }),
        Line::Lease(_) | Line::Member(_) | Line::Pair(_) => None,
    }
}

/// The number in the last line. Most lines are short; one with many places may not be.
fn read_tail(file: &File, length: u64) -> Option<u64> {
    let last_of = |most: u64| {
        let bytes = read_at(file, length.saturating_sub(most), usize::try_from(most.min(length)).ok()?)?;
        let body = bytes.strip_suffix(b"\n")?;
        parse_line(body.rsplit(|&b| b == b'\n').next()?)
    };
    last_of(2 * 1024).or_else(|| last_of(64 * 1024)).map(|line| line.seq())
}

/// What is there of so many bytes.
fn read_at(file: &File, from: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, from + u64::try_from(read).ok()?) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(read);
    Some(bytes)
}

#[derive(Default)]
struct Replay {
    leases: HashMap<LeaseId, LeaseRow>,
    members: HashMap<Holder, MemberRow>,
    pairs: HashMap<Holder, PairRow>,
    seq: u64,
    whole: bool,
    /// Snapshot rows still to come.
    due: u64,
}

fn replay(bytes: &[u8]) -> Copied {
    let mut state = Replay::default();
    let mut lines = bytes.split(|&b| b == b'\n');
    let mut last = lines.next_back();
    // A file that ends in a newline has an empty piece behind it.
    if last == Some(b"") {
        last = None;
    }
    state.begin(lines.next());
    for line in lines.chain(last) {
        state.take(parse_line(line));
    }
    state.whole &= state.due == 0;
    let rows = Rows {
        leases: state.leases.into_values().collect(),
        members: state.members.into_values().collect(),
        pairs: state.pairs.into_values().collect(),
    };
    Copied { seq: state.seq, rows, whole: state.whole }
}

impl Replay {
    fn begin(&mut self, line: Option<&[u8]>) {
        match line.and_then(parse_line) {
            Some(Line::Begin { seq, rows, .. }) => {
                self.whole = true;
                self.seq = seq;
                self.due = rows;
            }
            other => self.take(other),
        }
    }

    fn take(&mut self, line: Option<Line>) {
        let Some(line) = line.filter(|line| !matches!(line, Line::Begin { .. })) else {
            self.whole = false;
            self.due = self.due.saturating_sub(1);
            return;
        };
        let seq = line.seq();
        if self.due > 0 {
            self.due -= 1;
        } else {
            self.whole &= seq == self.seq + 1;
        }
        // Of a copy with holes a later change may pass for a row of the snapshot: count it all the same.
        self.seq = self.seq.max(seq);
        match line {
            Line::Lease(row) => self.lease(row),
            Line::Member(row) => {
                self.members.insert(row.holder.clone(), row);
            }
            Line::Pair(row) => {
                self.pairs.insert(row.holder.clone(), row);
            }
            Line::Begin { .. } => {}
        }
    }

    fn lease(&mut self, row: LeaseRow) {
        if self.leases.get(&row.id).is_some_and(|known| known.seq > row.seq) {
            return;
        }
        if row.standing == Standing::Free {
            self.members.retain(|_, m| m.lease != row.id);
        } else {
            // A block that is held was free no more: the rows that remembered its age are gone.
            self.leases.retain(|_, r| {
                r.standing != Standing::Free || !row.uids.span().covers(r.uids.span()) || r.id == row.id
            });
        }
        self.leases.insert(row.id, row);
    }
}
