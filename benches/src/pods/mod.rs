//! How long a pod takes from the command to its first instruction, and from the stop command to gone: `wardlet run`
//! against `podman kube play` and a static pod on kubelet and containerd, with the same manifests.
//!
//! - [`Hand`]: starts and ends pods; [`ours`], [`podman`] and [`static_pod`] are the three implementations.
//! - [`seen`]: the pods' processes, as they are seen from outside.

mod ours;
mod podman;
pub(crate) mod seen;
mod static_pod;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::memory;
use crate::report::{Report, say};
use crate::subject::Answer;

/// The pods that are there, idle, while memory is looked at.
const IDLE: u32 = 100;

/// What a round of pod starts needs.
pub(crate) struct Pods<'a> {
    pub(crate) manifests: &'a [PathBuf],
    pub(crate) podman: &'a Path,
    pub(crate) programs: &'a Path,
    pub(crate) samples: usize,
}

/// Starts and ends pods. What it has created is removed when it is dropped.
trait Hand {
    fn name(&self) -> &'static str;

    /// Gives the word for all pods of a manifest, and returns before or after they run.
    fn start(&mut self, manifest: &str) -> anyhow::Result<()>;

    /// Gives the word for the end of all of them, and returns before or after they are gone.
    fn stop(&mut self) -> anyhow::Result<()>;

    /// Waits until nothing more is done for pods that are gone.
    fn rest(&mut self) -> anyhow::Result<()>;

    /// Proves the isolation of all pods, if it can.
    fn prove(&self) -> anyhow::Result<Option<Proof>> {
        Ok(None)
    }

    /// Whether a process is one of those that serve pods.
    fn serves(&self, pid: u32) -> bool;
}

/// What a proof took, and came to.
struct Proof {
    took: Duration,
    answer: &'static str,
}

/// A hand, and what it took so far.
struct Driven {
    hand: Box<dyn Hand>,
    starts: Side,
    stops: Side,
}

impl Pods<'_> {
    /// Measures all in turn, another one first each round. One that cannot be used here is noted.
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        let mut all = self.hands(report);
        for path in self.manifests {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let what = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            say(&format!("pods: {what}, {} rounds", self.samples));
            for round in 0..=self.samples {
                let first = dice.below(all.len());
                all.rotate_left(first);
                for driven in &mut all {
                    driven.round(&text).with_context(|| driven.hand.name())?;
                }
                if round == 0 {
                    // What is done for the first time only is not what is measured.
                    all.iter_mut().for_each(Driven::forget);
                }
            }
            judge(&mut all, &what, dice, report);
        }
        if let Some(manifest) = self.manifests.first() {
            idle(&mut all, &std::fs::read_to_string(manifest)?, report)?;
        }
        Ok(())
    }

    fn hands(&self, report: &mut Report) -> Vec<Driven> {
        let made: [(&str, anyhow::Result<Box<dyn Hand>>); 3] = [
            ("wardlet run", ours::Ours::new(self.programs).map(|hand| Box::new(hand) as _)),
            ("podman kube play", podman::Podman::new(self.podman).map(|hand| Box::new(hand) as _)),
            ("static pod", static_pod::StaticPods::new().map(|hand| Box::new(hand) as _)),
        ];
        let mut used = Vec::new();
        for (name, hand) in made {
            match hand {
                Ok(hand) => used.push(Driven { hand, starts: Side::default(), stops: Side::default() }),
                Err(why) => report.notes.push(format!("{name} cannot be measured here: {why:#}")),
            }
        }
        used
    }
}

impl Driven {
    fn forget(&mut self) {
        [self.starts, self.stops] = [Side::default(), Side::default()];
    }

    fn round(&mut self, template: &str) -> anyhow::Result<()> {
        let (manifest, marks) = seen::manifest_of(template, 1);
        let began = Instant::now();
        self.hand.start(&manifest)?;
        let up = seen::until_all_run(&marks, began)?;
        self.starts.add(&answer(up));
        // A command that arrives while the first one is still executed is another measure.
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        self.hand.stop()?;
        seen::until_none_runs(&marks, began)?;
        self.hand.rest()?;
        self.stops.add(&answer(began.elapsed()));
        Ok(())
    }
}

/// Ours against each of the others.
fn judge(all: &mut [Driven], what: &str, dice: &mut Dice, report: &mut Report) {
    let taken = |driven: &mut Driven| {
        (driven.hand.name(), std::mem::take(&mut driven.starts), std::mem::take(&mut driven.stops))
    };
    let mut sides: Vec<_> = all.iter_mut().map(taken).collect();
    let ours = sides.iter().position(|(name, ..)| *name == ours::NAME).map(|index| sides.swap_remove(index));
    let third = Some(Goal::Part(1.0 / 3.0));
    for (name, starts, stops) in sides {
        let [start, stop] =
            ours.as_ref().map_or([None, None], |(_, a, b)| [Some(a.clone()), Some(b.clone())]);
        let named = |verb: &str| format!("{what}: {verb}, {name}");
        let (starts, stops) =
            (Sides { ours: start, peer: Some(starts) }, Sides { ours: stop, peer: Some(stops) });
        report.measures.push(Measure::new(&named("start"), starts, third, dice));
        report.measures.push(Measure::new(&named("stop"), stops, None, dice));
    }
}

/// The memory of all that serves many pods which do nothing.
fn idle(all: &mut [Driven], template: &str, report: &mut Report) -> anyhow::Result<()> {
    for driven in all {
        let name = driven.hand.name();
        say(&format!("pods: {IDLE} of {name}"));
        let (manifest, marks) = seen::manifest_of(template, IDLE);
        let began = Instant::now();
        driven.hand.start(&manifest)?;
        let up = seen::until_all_run(&marks, began).with_context(|| name)?;
        std::thread::sleep(Duration::from_secs(5));
        let (kilobytes, processes) = memory::of_all(|pid| driven.hand.serves(pid))?;
        report.notes.push(format!(
            "{IDLE} idle pods, {name}: {:.1} MB (Pss) in {processes} processes; all up after {:.1} s",
            memory::megabytes(kilobytes),
            up.as_secs_f64()
        ));
        if let Some(Proof { took, answer }) = driven.hand.prove()? {
            let seconds = took.as_secs_f64();
            report.notes.push(format!("wardlet verify of {IDLE} pods: {seconds:.2} s, goal 1 s; {answer}"));
        }
        driven.hand.stop()?;
        seen::until_none_runs(&marks, Instant::now())?;
        driven.hand.rest()?;
    }
    Ok(())
}

fn answer(took: Duration) -> Answer {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}
