//! A disk that can lose power: what a recorded run wrote, and what of it may be there afterwards.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

pub mod trace;

use std::collections::BTreeMap;
use std::path::Path;

use testkit::Dice;
pub use trace::{Op, record};

const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Clone, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Naming {
    Link(String, usize),
    Unlink(String),
    Rename(String, String),
}

/// Whether a name is on disk as soon as it is given, or only once its directory was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Strict,
    AtOnce,
}

/// What of the unsynced changes has reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    Nothing,
    Everything,
    /// Any of the writes, each as a whole.
    SomeWrites,
    /// Any of the sectors.
    SomeSectors,
}

#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    /// Names as the running system sees them...
    live: BTreeMap<String, usize>,
    /// ...as they are on disk...
    durable: BTreeMap<String, usize>,
    /// ...and the steps between the two. A journaling file system keeps their order.
    pending: Vec<Naming>,
}

impl Disk {
    /// A disk on which all of `dir` is safe.
    pub fn holding(dir: &Path) -> Self {
        let mut disk = Self::default();
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if trace::counts(&name) {
                disk.live.insert(name, disk.files.len());
                disk.files.push(File { durable: std::fs::read(entry.path()).unwrap(), pending: vec![] });
            }
        }
        disk.durable = disk.live.clone();
        disk
    }

    pub fn run(&mut self, op: &Op) {
        match op {
            Op::Create(name) => {
                if !self.live.contains_key(name) {
                    self.name(Naming::Link(name.clone(), self.files.len()));
                    self.files.push(File::default());
                }
            }
            Op::Empty(name) => self.change(name, Change::Truncate(0)),
            Op::Write { name, offset, bytes } => {
                self.change(name, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Op::Append { name, bytes } => {
                let offset = self.length(name);
                self.change(name, Change::Write { offset, bytes: bytes.clone() });
            }
            Op::Truncate(name, length) => self.change(name, Change::Truncate(*length)),
            Op::Rename(from, to) => self.name(Naming::Rename(from.clone(), to.clone())),
            Op::Link(from, to) => {
                let id = self.live[from];
                self.name(Naming::Link(to.clone(), id));
            }
            Op::Unlink(name) => self.name(Naming::Unlink(name.clone())),
            Op::SyncFile(name) => {
                let file = self.file(name);
                for change in std::mem::take(&mut file.pending) {
                    apply(&mut file.durable, &change);
                }
            }
            Op::SyncDir => {
                self.durable = self.live.clone();
                self.pending.clear();
            }
            Op::Said(_) => {}
        }
    }

    fn file(&mut self, name: &str) -> &mut File {
        let id = *self.live.get(name).unwrap_or_else(|| panic!("{name} is written before it is there"));
        &mut self.files[id]
    }

    fn change(&mut self, name: &str, change: Change) {
        self.file(name).pending.push(change);
    }

    fn length(&mut self, name: &str) -> usize {
        let file = self.file(name);
        let ends = |length: usize, change: &Change| match change {
            Change::Write { offset, bytes } => length.max(offset + bytes.len()),
            Change::Truncate(length) => *length,
        };
        file.pending.iter().fold(file.durable.len(), ends)
    }

    fn name(&mut self, step: Naming) {
        rename(&mut self.live, &step);
        self.pending.push(step);
    }

    /// Writes into `dir` what is found there after the power has come back.
    pub fn image(&self, dir: &Path, names: Names, luck: Luck, dice: &mut Dice) {
        let mut found = self.durable.clone();
        let steps = match (names, luck) {
            (Names::AtOnce, _) | (_, Luck::Everything) => self.pending.len(),
            (_, Luck::Nothing) => 0,
            _ => dice.below(self.pending.len() + 1),
        };
        self.pending.iter().take(steps).for_each(|step| rename(&mut found, step));
        for (name, id) in found {
            std::fs::write(dir.join(name), content(&self.files[id], luck, dice)).unwrap();
        }
    }
}

fn rename(names: &mut BTreeMap<String, usize>, step: &Naming) {
    match step {
        Naming::Link(name, id) => {
            names.insert(name.clone(), *id);
        }
        Naming::Unlink(name) => {
            names.remove(name);
        }
        Naming::Rename(from, to) => {
            let id = names.remove(from).expect("renames what is there");
            names.insert(to.clone(), id);
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(length) => bytes.resize(*length, 0),
        Change::Write { offset, bytes: new } => {
            let end = offset + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(new);
        }
    }
}

fn content(file: &File, luck: Luck, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = file.durable.clone();
    for change in &file.pending {
        match luck {
            Luck::Nothing => {}
            Luck::Everything => apply(&mut bytes, change),
            Luck::SomeWrites => {
                if dice.coin() {
                    apply(&mut bytes, change);
                }
            }
            Luck::SomeSectors => {
                sectors(change).iter().filter(|_| dice.coin()).for_each(|part| apply(&mut bytes, part));
            }
        }
    }
    bytes
}

/// The change cut where the disk's sectors meet.
fn sectors(change: &Change) -> Vec<Change> {
    let Change::Write { offset, bytes } = change else { return vec![change.clone()] };
    let mut parts = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = ((offset + at) / SECTOR * SECTOR + SECTOR - offset).min(bytes.len());
        parts.push(Change::Write { offset: offset + at, bytes: bytes[at..end].to_vec() });
        at = end;
    }
    parts
}
