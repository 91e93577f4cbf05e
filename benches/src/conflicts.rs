//! Our conflict engine beside upstream's SELinux conflict cache: a large cluster with few conflicts, and
//! one volume that many pods of two labels share.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::Answer;

/// What a cluster is made of.
const PODS: usize = 150_000;
const VOLUMES: usize = 50_000;
/// How many of the volumes have one pod with another label.
const CONTESTED: [usize; 2] = [0, 10_000];
const CLUSTER_LOADS: usize = 20;

/// Pods on one volume, and how often both sides load them. The peer's cost grows with the pairs: where it
/// would take minutes, we go alone.
const SHARED: [(usize, usize); 3] = [(100, 100), (300, 20), (1000, 1)];
const SHARED_ALONE: [(usize, usize); 2] = [(3000, 20), (10_000, 20)];
const DELETES: usize = 50;

/// "Never slower": the interval's upper end.
const NOT_SLOWER: Goal = Goal::Part(1.05);

/// What a side prints.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measured {
    pub(crate) load_ns: u64,
    pub(crate) conflicts: u64,
    /// Unless there were too many.
    pub(crate) list_ns: Option<u64>,
    #[serde(default)]
    pub(crate) scrape_ns: Option<u64>,
    #[serde(default)]
    pub(crate) scrape_bytes: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) event_ns: Vec<u64>,
    pub(crate) delete_ns: Vec<u64>,
}

/// One side's samples of everything.
#[derive(Debug, Default)]
struct Samples {
    loads: Side,
    lists: Side,
    scrapes: Side,
    events: Side,
    deletes: Side,
    last: Measured,
}

impl Samples {
    fn add(&mut self, m: Measured) {
        self.loads.add(&once(m.load_ns));
        m.list_ns.iter().for_each(|&ns| self.lists.add(&once(ns)));
        m.scrape_ns.iter().for_each(|&ns| self.scrapes.add(&once(ns)));
        m.event_ns.iter().for_each(|&ns| self.events.add(&once(ns)));
        m.delete_ns.iter().for_each(|&ns| self.deletes.add(&once(ns)));
        self.last = m;
    }
}

/// Our samples of one cluster, and the peer's unless we go alone.
struct Compared {
    ours: Samples,
    peer: Option<Samples>,
}

fn once(ns: u64) -> Answer {
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}

/// The two programs.
struct Programs<'a> {
    ours: [OsString; 2],
    peer: &'a Path,
}

/// Measures both sides.
pub(crate) fn run(peer: &Path, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let programs = Programs { ours: [own.into(), "conflict-engine".into()], peer };
    for contested in CONTESTED {
        let scene = [PODS, DELETES, VOLUMES, contested];
        say(&format!("conflicts, {PODS} pods on {VOLUMES} volumes, {contested} of them contested"));
        let (mut ours, mut peer) = (Samples::default(), Samples::default());
        for _ in 0..CLUSTER_LOADS {
            programs.both(&scene, dice, &mut ours, &mut peer)?;
        }
        let name = format!("{PODS} pods, {contested} contested");
        let compared = Compared { ours, peer: Some(peer) };
        note(report, &name, &compared);
        let list = if contested == 0 { None } else { Some(NOT_SLOWER) };
        let goals = [Some(NOT_SLOWER), list, Some(NOT_SLOWER), Some(NOT_SLOWER)];
        push(report, dice, &name, compared, goals);
    }
    for (pods, times) in SHARED {
        say(&format!("conflicts, {pods} pods on one volume"));
        let (mut ours, mut peer) = (Samples::default(), Samples::default());
        for _ in 0..times {
            programs.both(&[pods, DELETES], dice, &mut ours, &mut peer)?;
        }
        shared(report, dice, pods, Compared { ours, peer: Some(peer) });
    }
    for (pods, times) in SHARED_ALONE {
        say(&format!("conflicts, {pods} pods on one volume, ours alone"));
        let mut ours = Samples::default();
        for _ in 0..times {
            ours.add(programs.ours(&[pods, DELETES])?);
        }
        shared(report, dice, pods, Compared { ours, peer: None });
    }
    Ok(())
}

fn shared(report: &mut Report, dice: &mut Dice, pods: usize, compared: Compared) {
    let name = format!("{pods} pods on one volume");
    note(report, &name, &compared);
    let load = Goal::P99(Duration::from_secs(1));
    let change = Goal::P99(Duration::from_micros(100));
    push(report, dice, &name, compared, [Some(load), None, Some(change), Some(change)]);
}

/// What is no time: sizes and memory.
fn note(report: &mut Report, name: &str, compared: &Compared) {
    let side = |m: &Measured| format!("{} records, {} kB", m.conflicts, m.heap_bytes / 1000);
    let peer = compared.peer.as_ref().map(|peer| {
        let scrape = peer.last.scrape_bytes / 1000;
        format!("; the peer {} of heap, {scrape} kB a scrape", side(&peer.last))
    });
    let ours = side(&compared.ours.last);
    report.notes.push(format!("conflicts, {name}: ours {ours} resident{}", peer.unwrap_or_default()));
}

fn push(report: &mut Report, dice: &mut Dice, name: &str, compared: Compared, goals: [Option<Goal>; 4]) {
    let apart = |s: Samples| ([s.loads, s.lists, s.events, s.deletes], s.scrapes);
    let (ours, _) = apart(compared.ours);
    let (peer, scrapes) = compared.peer.map(apart).unzip();
    let mut peer = peer.map(IntoIterator::into_iter);
    for ((what, side), goal) in ["load", "list", "event", "delete"].into_iter().zip(ours).zip(goals) {
        let sides = Sides { ours: Some(side), peer: peer.as_mut().and_then(Iterator::next) };
        report.measures.push(Measure::new(&format!("{what}, {name}"), sides, goal, dice));
    }
    if let Some(scrapes) = scrapes {
        let sides = Sides { ours: None, peer: Some(scrapes) };
        report.measures.push(Measure::new(&format!("scrape, {name}"), sides, None, dice));
    }
}

impl Programs<'_> {
    /// One run of each side, in an order by chance.
    fn both(
        &self,
        scene: &[usize],
        dice: &mut Dice,
        ours: &mut Samples,
        peer: &mut Samples,
    ) -> anyhow::Result<()> {
        let first = dice.heads();
        if first {
            ours.add(self.ours(scene)?);
        }
        peer.add(measured(Command::new(self.peer), scene)?);
        if !first {
            ours.add(self.ours(scene)?);
        }
        let (a, b) = (ours.last.conflicts, peer.last.conflicts);
        if a != b {
            bail!("we found {a} records where the peer found {b}");
        }
        Ok(())
    }

    fn ours(&self, scene: &[usize]) -> anyhow::Result<Measured> {
        let [program, verb] = &self.ours;
        let mut command = Command::new(program);
        command.arg(verb);
        measured(command, scene)
    }
}

fn measured(mut command: Command, scene: &[usize]) -> anyhow::Result<Measured> {
    let name = command.get_program().display().to_string();
    let output = command
        .args(scene.iter().map(usize::to_string))
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} gave no JSON"))
}
