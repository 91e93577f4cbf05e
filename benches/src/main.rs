//! Measures us and our peers side by side: `bench run`.
//!
//! - [`subject`] drives a program that is measured, [`worker`] is our own such program.
//! - [`leases`], [`writer`], [`manifests`], [`idmap`], [`check`], [`conflicts`], [`pods`], [`runtime`],
//!   [`wrapper`], [`agent`] with its part [`agent::many`] are the suites; [`conflict_engine`] is our side of the conflicts, [`cri`] drives a runtime, [`memory`] counts its pages.
//! - [`measure`] sums samples up and judges them, by [`stats`]; [`growth`] does it by the number of pods; [`report`], [`plot`]
//!   and [`panel`] show them.
//!
//! Speed never fails a run, but with `--check`.

mod agent;
mod check;
mod conflict_engine;
mod conflicts;
mod cri;
mod dice;
mod growth;
mod idmap;
mod leases;
mod machine;
mod manifests;
mod measure;
mod memory;
mod panel;
mod plot;
mod pods;
mod report;
mod runtime;
mod stats;
mod subject;
mod worker;
mod wrapper;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::agent::Agents;
use crate::agent::many::Many;
use crate::dice::Dice;
use crate::idmap::Idmaps;
use crate::leases::Leases;
use crate::machine::Machine;
use crate::pods::Pods;
use crate::report::Report;
use crate::runtime::Runtimes;
use crate::wrapper::Wrappers;
use crate::writer::Writers;

/// Measures us and our peers side by side.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs the suites, prints the table.
    Run(Box<Run>),
    /// Is our side of the ledger's suite: obeys commands from stdin.
    #[command(hide = true)]
    Worker,
    /// Is our side of the atomic writer's suite: obeys commands from stdin.
    #[command(hide = true)]
    VolumeWorker,
    /// Is our side of the conflicts' suite.
    #[command(hide = true)]
    ConflictEngine(conflict_engine::Scene),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    Leases,
    Writer,
    Manifests,
    Idmap,
    Check,
    Conflicts,
    Pods,
    Runtime,
    Wrapper,
    Agent,
    Many,
}

#[derive(Args)]
struct Run {
    /// What to measure; everything unless said.
    suites: Vec<Suite>,
    /// The directory with the peers' programs (testbed/peers/build.sh makes them).
    #[arg(long)]
    peers: PathBuf,
    /// Where to make scratch directories; on the filesystem that is to be measured.
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// How many pairs of runs, where a run is short.
    #[arg(long, default_value_t = 100)]
    samples: usize,
    /// The pods that are started and stopped, one a file.
    #[arg(long = "manifest", default_values = ["benches/pods/pod.yaml", "benches/pods/volumes.yaml"])]
    manifests: Vec<PathBuf>,
    /// How podman is driven.
    #[arg(long, default_value = "benches/pods/podman.sh")]
    podman: PathBuf,
    /// The directory with our own programs.
    #[arg(long, default_value = "target/release")]
    programs: PathBuf,
    /// How many times each pod is started and stopped.
    #[arg(long, default_value_t = 20)]
    pod_samples: usize,
    /// How many times each pod is started and deleted on each node of the agent's suite.
    #[arg(long, default_value_t = 8)]
    agent_samples: usize,
    /// How many bursts and restarts of agents that suite has, and how many bursts the one of many pods.
    #[arg(long, default_value_t = 3)]
    agent_repeats: usize,
    /// Also write everything as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also draw the distributions into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Have the same order and the same draws as a run before.
    #[arg(long)]
    seed: Option<u64>,
    /// Exit with 1 if a goal is not met.
    #[arg(long)]
    check: bool,
}

impl Run {
    fn wants(&self, suite: Suite) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }

    fn run(&self) -> anyhow::Result<Report> {
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
        let seed = self.seed.unwrap_or_else(clock);
        let (machine, mut dice) = (Machine::look(&self.dir)?, Dice::new(seed));
        let mut report = Report { machine, seed, ..Report::default() };
        if self.wants(Suite::Leases) {
            let peer = self.peers.join("userns-manager");
            let leases = Leases { peer: &peer, dir: &self.dir, samples: self.samples, dice: dice.clone() };
            leases.run(&mut report)?;
        }
        if self.wants(Suite::Writer) {
            let peer = self.peers.join("atomic-writer");
            let writers = Writers { peer: &peer, dir: &self.dir, samples: self.samples, dice: dice.clone() };
            writers.run(&mut report)?;
        }
        if self.wants(Suite::Manifests) {
            manifests::run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Idmap) {
            Idmaps { dir: &self.dir, samples: self.samples }.run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Check) {
            check::run(&self.dir, &mut dice, &mut report)?;
        }
        if self.wants(Suite::Conflicts) {
            conflicts::run(&self.peers.join("selinux-cache"), &mut dice, &mut report)?;
        }
        if self.wants(Suite::Pods) {
            let (manifests, podman, programs) = (&self.manifests, &self.podman, &self.programs);
            Pods { manifests, podman, programs, samples: self.pod_samples }.run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Runtime) {
            Runtimes { samples: self.pod_samples }.run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Wrapper) {
            Wrappers { samples: self.samples }.run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Agent) {
            let (samples, repeats) = (self.agent_samples, self.agent_repeats);
            Agents { samples, repeats }.run(&mut dice, &mut report)?;
        }
        if self.wants(Suite::Many) {
            Many { repeats: self.agent_repeats }.run(&mut dice, &mut report)?;
        }
        Ok(report)
    }

    fn show(&self) -> anyhow::Result<ExitCode> {
        let report = self.run()?;
        print!("{}", report.table());
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        if let Some(path) = &self.plot {
            report::write(path, &plot::draw(&report))?;
        }
        Ok(if self.check && !report.all_met() { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Verb::Run(run) => run.show(),
        Verb::Worker => worker::obey_all(std::io::stdin().lock(), std::io::stdout().lock())
            .context("worker")
            .map(|()| ExitCode::SUCCESS),
        Verb::VolumeWorker => writer::obey_all(std::io::stdin().lock(), std::io::stdout().lock())
            .context("volume-worker")
            .map(|()| ExitCode::SUCCESS),
        Verb::ConflictEngine(scene) => scene.run().map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|e| {
        eprintln!("error: {e:#}");
        ExitCode::from(2)
    })
}
