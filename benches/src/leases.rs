//! The ledger against upstream's user namespace manager, and against itself from many processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, SyncCount, say};
use crate::subject::{Recipe, Subject};

const THREADS: usize = 16;
const PROCESSES: usize = 16;
/// Operations in one sample from one caller, and of one thread or process of many.
const BATCH: usize = 50;
const SHARE: usize = 10;
/// Leases in the run in which fsyncs are counted.
const COUNTED: usize = 1000;
/// Pods on the node when it is restarted.
const RESTARTS: [(usize, Option<Goal>); 3] = [(110, None), (1000, None), (10_000, Some(Goal::Part(0.2)))];

/// What the suite needs to run.
pub(crate) struct Leases<'a> {
    pub(crate) peer: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) samples: usize,
    pub(crate) dice: Dice,
}

/// Us and the peer, each over a directory of its own on the same filesystem.
struct Couple {
    ours: Subject,
    peer: Subject,
    dir: TempDir,
}

impl Leases<'_> {
    pub(crate) fn run(mut self, report: &mut Report) -> anyhow::Result<()> {
        let (lease, release) = self.one_caller()?;
        report.measures.push(lease);
        report.measures.push(self.many_threads()?);
        report.measures.push(release);
        for (pods, goal) in RESTARTS {
            report.measures.push(self.restart(pods, goal)?);
        }
        report.measures.push(self.many_processes()?);
        report.syncs = self.count_syncs()?;
        Ok(())
    }

    fn scratch(&self) -> anyhow::Result<TempDir> {
        let made = tempfile::Builder::new().prefix("wardlet-bench-").tempdir_in(self.dir);
        made.with_context(|| format!("cannot make a directory in {}", self.dir.display()))
    }

    fn couple(&self) -> anyhow::Result<Couple> {
        let dir = self.scratch()?;
        let mut couple =
            Couple { ours: Recipe::ours()?.start()?, peer: Recipe::peer(self.peer).start()?, dir };
        couple.ours.ask(&format!("open {}", couple.dir.path().join("ledger").display()))?;
        couple.peer.ask(&format!("open {}", couple.dir.path().join("pods").display()))?;
        Ok(couple)
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

    fn one_caller(&mut self) -> anyhow::Result<(Measure, Measure)> {
        say("leases and releases, one caller");
        let mut couple = self.couple()?;
        couple.prepare(BATCH * (self.samples + 1))?;
        couple.both(&format!("lease {BATCH}"))?;
        let leases = self.interleave(&mut couple, &format!("lease {BATCH}"))?;
        let releases = self.interleave(&mut couple, &format!("release {BATCH}"))?;
        let goal = Some(Goal::Part(1.0 / 1.5));
        Ok((
            Measure::new("lease, one caller", leases, goal, &mut self.dice),
            Measure::new("release, one caller", releases, None, &mut self.dice),
        ))
    }

    fn many_threads(&mut self) -> anyhow::Result<Measure> {
        say("leases, 16 threads");
        let mut couple = self.couple()?;
        couple.prepare(THREADS * SHARE * (self.samples + 1))?;
        let command = format!("lease-threads {THREADS} {SHARE}");
        couple.both(&command)?;
        let sides = self.interleave(&mut couple, &command)?;
        Ok(Measure::new("lease, 16 threads", sides, Some(Goal::Part(0.2)), &mut self.dice))
    }

    fn restart(&mut self, pods: usize, goal: Option<Goal>) -> anyhow::Result<Measure> {
        say(&format!("restart with {pods} pods"));
        let mut couple = self.couple()?;
        couple.prepare(pods)?;
        couple.both(&format!("lease {pods}"))?;
        couple.both("restart")?;
        let sides = self.interleave(&mut couple, "restart")?;
        Ok(Measure::new(&format!("restart, {pods} pods"), sides, goal, &mut self.dice))
    }

    /// The manager lives in one process, so there is no peer here.
    fn many_processes(&mut self) -> anyhow::Result<Measure> {
        say("leases, 16 processes");
        let (dir, ours) = (self.scratch()?, Recipe::ours()?);
        let mut crowd = Vec::new();
        for _ in 0..PROCESSES {
            let mut one = ours.start()?;
            one.ask(&format!("open {}", dir.path().join("ledger").display()))?;
            one.ask(&format!("prepare {}", SHARE * self.samples))?;
            crowd.push(one);
        }
        let mut side = Side::default();
        let command = format!("lease {SHARE}");
        for _ in 0..self.samples {
            crowd.iter_mut().try_for_each(|one| one.tell(&command))?;
            let answers: Vec<_> = crowd.iter_mut().map(|one| one.hear(&command)).collect::<Result<_, _>>()?;
            side.add(&together(answers));
        }
        let goal = Some(Goal::P99(Duration::from_millis(40)));
        Ok(Measure::new("lease, 16 processes", Sides::only_ours(side), goal, &mut self.dice))
    }

    fn count_syncs(&self) -> anyhow::Result<Vec<SyncCount>> {
        say("counting fsyncs");
        let mut counts = Vec::new();
        let threads = format!("lease-threads {THREADS} {}", COUNTED / THREADS);
        let commands = [
            ("one caller", format!("lease {COUNTED}"), COUNTED),
            ("16 threads", threads, COUNTED / THREADS * THREADS),
        ];
        for (callers, command, leases) in commands {
            for recipe in [Recipe::ours()?, Recipe::peer(self.peer)] {
                let idle = self.syncs_of(&recipe, None)?;
                let busy = self.syncs_of(&recipe, Some(&command))?;
                counts.push(SyncCount::new(recipe.name, callers, busy.saturating_sub(idle), leases));
            }
        }
        Ok(counts)
    }

    /// How often a whole run syncs a file, by the tracer's own count.
    fn syncs_of(&self, recipe: &Recipe, command: Option<&str>) -> anyhow::Result<u64> {
        let dir = self.scratch()?;
        let counts: PathBuf = dir.path().join("strace");
        let traced = ["strace", "-f", "-c", "-U", "name,calls", "-e", "trace=fsync,fdatasync", "-o"];
        let words: Vec<&OsStr> = traced.iter().map(OsStr::new).chain([counts.as_os_str()]).collect();
        let mut subject = recipe.under(&words).start()?;
        subject.ask(&format!("open {}", dir.path().join("state").display()))?;
        subject.ask(&format!("prepare {COUNTED}"))?;
        if let Some(command) = command {
            subject.ask(command)?;
        }
        subject.end()?;
        let text = std::fs::read_to_string(&counts);
        Ok(total_calls(&text.with_context(|| format!("cannot read {}", counts.display()))?))
    }
}

impl Couple {
    fn both(&mut self, command: &str) -> anyhow::Result<()> {
        self.ours.ask(command)?;
        self.peer.ask(command).map(drop)
    }

    fn prepare(&mut self, pods: usize) -> anyhow::Result<()> {
        self.both(&format!("prepare {pods}"))
    }
}

/// Processes that started together are one sample, as long as the longest of them.
fn together(answers: Vec<crate::subject::Answer>) -> crate::subject::Answer {
    let mut all = crate::subject::Answer::default();
    for answer in answers {
        all.wall_ns = all.wall_ns.max(answer.wall_ns);
        all.ns.extend(answer.ns);
    }
    all
}

/// The calls in the table that `strace -c -U name,calls` writes.
fn total_calls(table: &str) -> u64 {
    let calls = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("fsync" | "fdatasync")).then(|| words.next()?.parse::<u64>().ok())?
    });
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracers_table_is_added_up() {
        let table = "syscall          calls\n---------------- ---------\nfdatasync             1001\nfsync                   12\n---------------- ---------\ntotal                 1013\n";
        assert_eq!(total_calls(table), 1013);
        assert_eq!(total_calls(""), 0);
    }
}
