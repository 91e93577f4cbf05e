//! The atomic writer against upstream's, on disk and on a tmpfs.
//!
//! Ours has content, modes and directories on disk before readers see them; upstream's syncs nothing. On a
//! tmpfs, where secret, downwardAPI and projected volumes live, a sync costs nothing: there the two do
//! the same work.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use kernel::Dir;
use tempfile::TempDir;
use volumes::ownership::Owners;
use volumes::payload::{ConfigMap, Mode, Need, Object, Payload, PodFields, Source, Volume};
use volumes::writer::Writer;

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::{Answer, Recipe, Subject};

/// Files in the volume, and how many writes are one sample.
const SIZES: [(usize, usize); 3] = [(1, 20), (100, 4), (1000, 1)];
const BYTES: usize = 200;
/// Never slower.
const AS_FAST: Goal = Goal::Part(1.05);
const TMPFS: &str = "/dev/shm";
/// Writes in the run in which syncs are counted.
const COUNTED: usize = 10;

/// What the suite needs to run.
pub(crate) struct Writers<'a> {
    pub(crate) peer: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) samples: usize,
    pub(crate) dice: Dice,
}

impl Writers<'_> {
    pub(crate) fn run(mut self, report: &mut Report) -> anyhow::Result<()> {
        for (place, dir, goal) in [("disk", self.dir, None), ("tmpfs", Path::new(TMPFS), Some(AS_FAST))] {
            for (keys, batch) in SIZES {
                say(&format!("atomic writer, {keys} keys, {place}"));
                let mut couple = Couple::open(self.peer, dir, keys)?;
                let sides = self.interleave(&mut couple, &format!("update {batch}"))?;
                let name = format!("update, {keys} keys, {place}");
                report.measures.push(Measure::new(&name, sides, goal, &mut self.dice));
                let sides = self.interleave(&mut couple, &format!("same {batch}"))?;
                let name = format!("no change, {keys} keys, {place}");
                report.measures.push(Measure::new(&name, sides, Some(AS_FAST), &mut self.dice));
            }
        }
        for (keys, _) in SIZES {
            let ours = self.syncs(&Recipe::ours_as("volume-worker")?, keys)?;
            let peer = self.syncs(&Recipe::peer(self.peer), keys)?;
            report.notes.push(format!(
                "atomic writer, {keys} keys: an update syncs {ours} times, upstream's {peer} times"
            ));
        }
        Ok(())
    }

    /// Gives both the same command again and again, in a random order each time.
    fn interleave(&mut self, couple: &mut Couple, command: &str) -> anyhow::Result<Sides> {
        let (mut ours, mut peer) = (Side::default(), Side::default());
        for _ in 0..self.samples {
            if self.dice.heads() {
                ours.add(&couple.ours.ask(command)?);
                peer.add(&couple.peer.ask(command)?);
            } else {
                peer.add(&couple.peer.ask(command)?);
                ours.add(&couple.ours.ask(command)?);
            }
        }
        Ok(Sides::both(ours, peer))
    }

    /// How often one update syncs, by the tracer's own count.
    fn syncs(&self, recipe: &Recipe, keys: usize) -> anyhow::Result<u64> {
        let dir = scratch(self.dir)?;
        let counts = dir.path().join("strace");
        let volume = dir.path().join("volume");
        std::fs::create_dir(&volume)?;
        let traced = ["strace", "-f", "-c", "-U", "name,calls", "-e", "trace=fsync,fdatasync,syncfs", "-o"];
        let words: Vec<&OsStr> = traced.iter().map(OsStr::new).chain([counts.as_os_str()]).collect();
        let mut subject = recipe.under(&words).start()?;
        subject.ask(&format!("open {} {keys} {BYTES}", volume.display()))?;
        subject.ask(&format!("update {COUNTED}"))?;
        subject.end()?;
        let table =
            std::fs::read_to_string(&counts).with_context(|| format!("cannot read {}", counts.display()))?;
        Ok(total_calls(&table) / u64::try_from(COUNTED)?)
    }
}

/// The calls in the table that `strace -c -U name,calls` writes.
fn total_calls(table: &str) -> u64 {
    let calls = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("fsync" | "fdatasync" | "syncfs"))
            .then(|| words.next()?.parse::<u64>().ok())?
    });
    calls.sum()
}

/// Us and the peer, each over a volume of its own on the same filesystem.
struct Couple {
    ours: Subject,
    peer: Subject,
    _dir: TempDir,
}

impl Couple {
    fn open(peer: &Path, dir: &Path, keys: usize) -> anyhow::Result<Self> {
        let dir = scratch(dir)?;
        let start = |recipe: Recipe| -> anyhow::Result<Subject> {
            let volume = dir.path().join(recipe.name);
            std::fs::create_dir(&volume)?;
            let mut subject = recipe.start()?;
            subject.ask(&format!("open {} {keys} {BYTES}", volume.display()))?;
            subject.ask("update 2")?;
            Ok(subject)
        };
        let (ours, peer) = (start(Recipe::ours_as("volume-worker")?)?, start(Recipe::peer(peer))?);
        Ok(Self { ours, peer, _dir: dir })
    }
}

fn scratch(dir: &Path) -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix("wardlet-bench-").tempdir_in(dir);
    made.with_context(|| format!("cannot make a directory in {}", dir.display()))
}

/// Obeys commands until there are no more. They are those of testbed/peers/atomic-writer.
pub(crate) fn obey_all(commands: impl BufRead, mut answers: impl Write) -> anyhow::Result<()> {
    let mut open: Option<Open> = None;
    for command in commands.lines() {
        let command = command.context("cannot read a command")?;
        let words: Vec<&str> = command.split_whitespace().collect();
        let answer = obey(&mut open, &words)
            .unwrap_or_else(|e| Answer { error: Some(format!("{e:#}")), ..Answer::default() });
        writeln!(answers, "{}", serde_json::to_string(&answer)?).context("cannot answer")?;
    }
    Ok(())
}

struct Open {
    volume: Dir,
    /// Two sets that differ in every file, written in turn.
    sets: [Payload; 2],
    turn: usize,
}

fn obey(open: &mut Option<Open>, words: &[&str]) -> anyhow::Result<Answer> {
    match words {
        ["open", dir, keys, bytes] => {
            let (keys, bytes) = (keys.parse()?, bytes.parse()?);
            let sets = [set(keys, bytes, "a")?, set(keys, bytes, "b")?];
            *open = Some(Open { volume: Dir::open(Path::new(dir))?, sets, turn: 0 });
            Ok(Answer::default())
        }
        [what @ ("update" | "same"), times] => {
            let open = open.as_mut().context("no volume is open")?;
            let step = usize::from(*what == "update");
            write(open, times.parse()?, step)
        }
        _ => bail!("unknown command {:?}", words.join(" ")),
    }
}

fn set(keys: usize, bytes: usize, fill: &str) -> anyhow::Result<Payload> {
    let data = (0..keys).map(|i| (format!("key-{i:04}"), fill.repeat(bytes))).collect();
    let found = Some(ConfigMap { data, binary_data: BTreeMap::new() });
    let object = Object { name: "bench".to_owned(), found, items: vec![], need: Need::Required };
    let sources = vec![Source::ConfigMap(object)];
    let volume = Volume { name: "bench".to_owned(), default_mode: Mode::DEFAULT, sources };
    Ok(Payload::of(&volume, &PodFields::default())?)
}

/// Writes so many times, going on to the other set by `step` each time.
fn write(open: &mut Open, times: usize, step: usize) -> anyhow::Result<Answer> {
    let mut answer = Answer::default();
    let began = Instant::now();
    for _ in 0..times {
        open.turn = (open.turn + step) % open.sets.len();
        let set = open.sets.get(open.turn).context("two sets")?;
        let start = Instant::now();
        let written =
            Writer { volume: &open.volume, owners: &Owners::Container, fs_group: None }.write(set)?;
        answer.ns.push(u64::try_from(start.elapsed().as_nanos())?);
        std::hint::black_box(written);
    }
    answer.wall_ns = u64::try_from(began.elapsed().as_nanos())?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_answers_every_command_with_its_times() {
        let answers = |commands: &str| -> Vec<Answer> {
            let mut out = Vec::new();
            obey_all(commands.as_bytes(), &mut out).unwrap();
            let lines = out.split(|&b| b == b'\n').filter(|l| !l.is_empty());
            lines.map(|l| serde_json::from_slice(l).unwrap()).collect()
        };
        let found = answers("update 1\nopen /nonexistent 1 1\ndance\n");
        assert_eq!(found[0].error.as_deref(), Some("no volume is open"));
        assert!(found[1].error.is_some() && found[2].error.is_some());
    }

    #[test]
    fn every_sort_of_sync_is_counted() {
        assert_eq!(total_calls("syscall calls\nfsync 12\nsyncfs 1\ntotal 13\n"), 13);
    }
}
