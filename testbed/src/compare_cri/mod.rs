//! `testbed compare-cri`: the CRI requests of a real kubelet and of `wardlet run` or `wardlet agent` for the same pods,
//! field by field.
//!
//! - [`pods`]: the pods; [`run`]: both runs, with [`crate::recorder`] between the client and containerd.
//! - [`schema`] and [`decode`]: the recorded bytes as trees, with fields that our `.proto` files do not have;
//!   [`flat`]: a tree as a list of fields.
//! - [`recording`]: the calls of a client by pod, with IDs, addresses and directories of pods replaced.
//! - [`difference`]: what differs, and what of it docs/reference/kubelet-differences.md has.

mod decode;
mod difference;
mod flat;
mod pods;
mod recording;
mod run;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::{Part, Parts, Result, Testbed, conformance};
use difference::{Difference, Documented};
use recording::Recording;
use run::Runs;

/// Which pods are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of them, in several minutes.
    Whole,
    /// Some that show each kind of call, in about a minute.
    Short,
}

/// Which of ours is compared with a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// `wardlet run`, which gets the pods as files.
    Run,
    /// `wardlet agent`, which takes the kubelet's place at the API server.
    Agent,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "wardlet run",
            Self::Agent => "wardlet agent",
        })
    }
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How many pods the kubelet was given.
    pub pods: usize,
    /// How many distinct requests of the kubelet were compared.
    pub requests: usize,
    /// How many differences are documented.
    pub documented: usize,
    /// Differences that are not, one line each.
    pub undocumented: Vec<String>,
    /// Rows of the documentation that no difference matched; only of a whole comparison.
    pub stale: Vec<String>,
}

impl Outcome {
    /// Whether every difference is documented and the documentation has no other.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.undocumented.is_empty() && self.stale.is_empty()
    }

    fn counts(&self) -> String {
        let Self { pods, requests, documented, undocumented, stale } = self;
        let (undocumented, stale) = (undocumented.len(), stale.len());
        format!(
            "{requests} requests of {pods} pods: {undocumented} undocumented differences, {documented} documented; {stale} rows \
             of the documentation not found"
        )
    }
}

/// Runs the pods by a kubelet and by wardlet, and compares what they asked of containerd. What was recorded stays in the directory `keep`, if there is one.
///
/// # Errors
/// If a component is missing, or a client cannot be started or ended.
pub fn compare(against: &[Against], extent: Extent, keep: Option<&Path>) -> Result<Vec<Outcome>> {
    let pods = match extent {
        Extent::Whole => pods::all(),
        Extent::Short => pods::few(),
    };
    let testbed = Testbed::start(Parts::of(&[Part::Kubelet, Part::Recorder, Part::Registry]))?;
    let runs = run::run(&testbed, against, &pods, keep);
    testbed.down()?;
    let outcomes = outcomes(against, extent, &runs?);
    for (against, outcome) in against.iter().zip(&outcomes).filter(|_| extent == Extent::Whole) {
        let name = match against {
            Against::Run => "compare-cri",
            Against::Agent => "compare-cri agent",
        };
        conformance::record(name, &outcome.counts())?;
    }
    Ok(outcomes)
}

/// Compares what an earlier comparison has kept in a directory.
///
/// # Errors
/// If the recordings cannot be read.
pub fn compare_kept(against: &[Against], extent: Extent, dir: &Path) -> Result<Vec<Outcome>> {
    Ok(outcomes(against, extent, &Runs::read(dir, against)?))
}

/// One for each of ours, in their order. The kubelet has run once for all.
fn outcomes(against: &[Against], extent: Extent, runs: &Runs) -> Vec<Outcome> {
    let pairs = against.iter().zip(&runs.ours);
    pairs.map(|(against, ours)| outcome(*against, extent, &runs.kubelet, ours)).collect()
}

fn outcome(against: Against, extent: Extent, kubelet: &Recording, ours: &Recording) -> Outcome {
    let documented = Documented::read(against);
    let all = difference::between(kubelet, ours, &documented);
    let (known, new): (Vec<Difference>, Vec<Difference>) =
        all.into_iter().partition(|one| documented.has(one));
    let stale = match extent {
        Extent::Whole => documented.unused().map(ToString::to_string).collect(),
        Extent::Short => Vec::new(),
    };
    let requests = kubelet.pods.values().flat_map(BTreeMap::values).map(|set| set.len()).sum();
    Outcome {
        pods: kubelet.pods.keys().filter(|name| *name != recording::NO_POD).count(),
        requests,
        documented: known.len(),
        undocumented: difference::grouped(&new),
        stale,
    }
}
