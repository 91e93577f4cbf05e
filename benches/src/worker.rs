//! Our side of the line protocol: the ledger as a node uses it, with the real census as its witness.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use anyhow::{Context, bail};
use census::Census;
use ids::BlockLength;
use ids::pool::IdPool;
use ledger::{BootId, Holder, LeaseRequest, Ledger, Options};

use crate::subject::Answer;

/// Obeys commands until there are no more. They are those of testbed/peers/userns-manager.
pub(crate) fn obey_all(commands: impl BufRead, mut answers: impl Write) -> anyhow::Result<()> {
    let mut node = Node::default();
    for command in commands.lines() {
        let command = command.context("cannot read a command")?;
        let words: Vec<&str> = command.split_whitespace().collect();
        let mut answer = node
            .obey(&words)
            .unwrap_or_else(|e| Answer { error: Some(format!("{e:#}")), ..Answer::default() });
        answer.held = node.held.len();
        writeln!(answers, "{}", serde_json::to_string(&answer)?).context("cannot answer")?;
    }
    Ok(())
}

#[derive(Default)]
struct Node {
    dir: PathBuf,
    ledger: Option<Ledger>,
    prepared: VecDeque<Holder>,
    held: VecDeque<Holder>,
    next: u64,
}

impl Node {
    fn obey(&mut self, words: &[&str]) -> anyhow::Result<Answer> {
        let number = |word: &str| word.parse::<usize>().with_context(|| format!("{word:?} is no number"));
        match words {
            ["open", dir] => {
                self.dir = PathBuf::from(dir);
                self.restart()
            }
            ["restart"] => self.restart(),
            ["prepare", n] => self.prepare(number(n)?),
            ["lease", n] => self.lease(1, number(n)?),
            ["lease-threads", threads, n] => self.lease(number(threads)?, number(n)?),
            ["release", n] => self.release(number(n)?),
            _ => bail!("unknown command {:?}", words.join(" ")),
        }
    }

    /// Opens the ledger and lists it: with that, a node knows all that it had leased.
    fn restart(&mut self) -> anyhow::Result<Answer> {
        self.ledger = None;
        let options = options(&self.dir)?;
        let began = Instant::now();
        let ledger = Ledger::open(options)?;
        let leases = ledger.list()?;
        let took = nanos(began);
        if let Some(notice) = ledger.take_notices().first() {
            bail!("the ledger has something to say: {notice}");
        }
        drop(leases);
        self.ledger = Some(ledger);
        Ok(Answer { wall_ns: took, ns: vec![took], ..Answer::default() })
    }

    fn prepare(&mut self, count: usize) -> anyhow::Result<Answer> {
        // Names as long as a pod's UID, and no two processes' alike.
        let process = std::process::id();
        for _ in 0..count {
            self.prepared.push_back(Holder::new(format!("{process:08x}-0000-4000-8000-{:012}", self.next))?);
            self.next += 1;
        }
        Ok(Answer::default())
    }

    fn lease(&mut self, threads: usize, each: usize) -> anyhow::Result<Answer> {
        if self.prepared.len() < threads * each {
            bail!("{} pods are prepared, {} are needed", self.prepared.len(), threads * each);
        }
        let holders: Vec<Holder> = self.prepared.drain(..threads * each).collect();
        self.held.extend(holders.iter().cloned());
        let ledger = self.ledger.as_ref().context("no ledger is open")?;
        let requests =
            holders.chunks(each.max(1)).map(|run| run.iter().cloned().map(LeaseRequest::new).collect());
        timed(requests.collect(), |request| Ok(ledger.lease(request).map(drop)?))
    }

    fn release(&mut self, count: usize) -> anyhow::Result<Answer> {
        if self.held.len() < count {
            bail!("{} pods hold a lease, {count} were to be released", self.held.len());
        }
        let holders: Vec<Holder> = self.held.drain(..count).collect();
        let ledger = self.ledger.as_ref().context("no ledger is open")?;
        timed(vec![holders], |holder| Ok(ledger.release(holder).map(drop)?))
    }
}

fn options(dir: &Path) -> anyhow::Result<Options> {
    let boot = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(boot).with_context(|| format!("cannot read {boot}"))?;
    let pool = IdPool::default_for(BlockLength::DEFAULT, vec![])?;
    Ok(Options::new(dir, pool, BootId(boot.trim().to_owned()), Arc::new(Census::default())))
}

/// Does every run of operations in a thread of its own, all from one start.
fn timed<T: Send>(
    runs: Vec<Vec<T>>,
    operation: impl Fn(T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Answer> {
    let start = Barrier::new(runs.len() + 1);
    let run_all = |run: Vec<T>| -> anyhow::Result<Vec<u64>> {
        start.wait();
        let mut took = Vec::with_capacity(run.len());
        for item in run {
            let began = Instant::now();
            operation(item)?;
            took.push(nanos(began));
        }
        Ok(took)
    };
    std::thread::scope(|scope| {
        let run_all = &run_all;
        let threads: Vec<_> = runs.into_iter().map(|run| scope.spawn(move || run_all(run))).collect();
        let began = Instant::now();
        start.wait();
        let mut answer = Answer::default();
        for thread in threads {
            let took = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            answer.ns.extend(took?);
        }
        answer.wall_ns = nanos(began);
        Ok(answer)
    })
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_leases_releases_and_finds_its_leases_again() {
        let dir = tempfile::tempdir().unwrap();
        let commands = format!(
            "open {}\nprepare 20\nlease 4\nlease-threads 4 4\nrelease 5\nrestart\nlease 1\n",
            dir.path().join("ledger").display()
        );
        let mut out = Vec::new();
        obey_all(commands.as_bytes(), &mut out).unwrap();
        let answers: Vec<Answer> = out
            .split(|&b| b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect();
        let counts: Vec<(usize, usize)> = answers.iter().map(|a| (a.ns.len(), a.held)).collect();
        assert_eq!(counts, [(1, 0), (0, 0), (4, 4), (16, 20), (5, 15), (1, 15), (0, 15)]);
        assert_eq!(answers[6].error.as_deref(), Some("0 pods are prepared, 1 are needed"));
    }
}
