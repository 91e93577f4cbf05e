//! What was measured of one thing, on both sides, and whether it is as good as it should be.

use std::time::Duration;

use serde::Serialize;

use crate::dice::Dice;
use crate::stats::{Estimate, bootstrap, mean, median, median_ratio, quantile, quantile_ratio};
use crate::subject::Answer;

/// What the values of a measure are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Unit {
    #[default]
    Seconds,
    Bytes,
    Number,
}

/// How one operation fared, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Speed {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) mean: f64,
    /// Operations per second over the whole of the median sample, threads together.
    pub(crate) per_second: f64,
}

/// One side's samples.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Side {
    pub(crate) speed: Option<Speed>,
    /// Seconds per operation, one value per sample: the sample's time by the number of its operations.
    pub(crate) samples: Vec<f64>,
    /// Every operation's own seconds, sample by sample.
    #[serde(skip)]
    operations: Vec<Vec<f64>>,
}

impl Side {
    pub(crate) fn add(&mut self, answer: &Answer) {
        let operations: Vec<f64> = answer.ns.iter().map(|&ns| seconds(ns)).collect();
        let count = u32::try_from(operations.len()).unwrap_or(u32::MAX).max(1);
        self.samples.push(seconds(answer.wall_ns) / f64::from(count));
        self.operations.push(operations);
    }

    /// A sample that is no time.
    pub(crate) fn add_value(&mut self, value: f64) {
        self.samples.push(value);
        self.operations.push(vec![value]);
    }

    fn finish(&mut self) {
        let mut all: Vec<f64> = self.operations.iter().flatten().copied().collect();
        self.speed = (|| {
            Some(Speed {
                mean: mean(&all)?,
                p50: quantile(&mut all, 500)?,
                p99: quantile(&mut all, 990)?,
                per_second: 1.0 / median(&mut self.samples.clone())?,
            })
        })();
    }

    /// A quantile over all operations; a sample's operations are drawn together, because they
    /// waited for each other.
    fn quantile(&self, per_mille: usize, dice: &mut Dice) -> Option<Estimate> {
        bootstrap(&self.operations, dice, |drawn| {
            quantile(&mut drawn.flatten().copied().collect::<Vec<_>>(), per_mille)
        })
    }
}

/// What we want to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Our time is at most this part of the peer's.
    Part(f64),
    /// The 99th percentile is at most this.
    P99(Duration),
    /// Our median is at most this part of the peer's, and our 99th percentile of the peer's.
    Quantiles(f64),
}

/// Our quantiles divided by the peer's.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: Estimate,
    pub(crate) p99: Estimate,
}

/// A goal and whether it is met: if the whole interval is on the right side, but for [`Goal::Quantiles`], where the run's
/// own quantiles count, because the interval of a 99th percentile is as wide as the tail is thin.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Judged {
    pub(crate) says: String,
    pub(crate) met: bool,
}

/// One thing, measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Option<Side>,
    pub(crate) peer: Option<Side>,
    /// Our time by the peer's: below 1 is faster.
    pub(crate) ratio: Option<Estimate>,
    /// Our quantiles by the peer's, where that is the goal.
    pub(crate) quantiles: Option<Quantiles>,
    /// Our own 99th percentile, where that is the goal.
    pub(crate) p99: Option<Estimate>,
    pub(crate) goal: Option<Judged>,
}

/// The samples of one thing: ours, the peer's, or both.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    pub(crate) ours: Option<Side>,
    pub(crate) peer: Option<Side>,
}

impl Sides {
    pub(crate) fn both(ours: Side, peer: Side) -> Self {
        Self { ours: Some(ours), peer: Some(peer) }
    }

    pub(crate) fn only_ours(ours: Side) -> Self {
        Self { ours: Some(ours), peer: None }
    }
}

impl Measure {
    /// Sums up what both sides did, pair by pair, or one side alone.
    pub(crate) fn new(name: &str, sides: Sides, goal: Option<Goal>, dice: &mut Dice) -> Self {
        let Sides { mut ours, mut peer } = sides;
        [&mut ours, &mut peer].into_iter().flatten().for_each(Side::finish);
        let mut measure = Self { name: name.to_owned(), ..Self::default() };
        if let (Some(ours), Some(peer)) = (&ours, &peer) {
            let pairs: Vec<(f64, f64)> =
                ours.samples.iter().copied().zip(peer.samples.iter().copied()).collect();
            measure.ratio = median_ratio(&pairs, dice);
            if let Some(Goal::Quantiles(_)) = goal {
                measure.quantiles = Quantiles::of(&pairs, dice);
            }
        }
        if let (Some(Goal::P99(_)), Some(ours)) = (goal, &ours) {
            measure.p99 = ours.quantile(990, dice);
        }
        measure.goal = goal.map(|goal| measure.judge(goal));
        Self { ours, peer, ..measure }
    }

    /// The same, of values that are no times.
    pub(crate) fn in_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    fn judge(&self, goal: Goal) -> Judged {
        match goal {
            Goal::Part(limit) => Judged {
                says: format!("ratio ≤ {limit:.3}"),
                met: self.ratio.is_some_and(|found| found.high <= limit),
            },
            Goal::P99(limit) => Judged {
                says: format!("p99 ≤ {limit:?}"),
                met: self.p99.is_some_and(|found| found.high <= limit.as_secs_f64()),
            },
            Goal::Quantiles(limit) => Judged {
                says: format!("p50 and p99 ≤ {limit:.2}"),
                met: self.quantiles.is_some_and(|q| q.p50.value <= limit && q.p99.value <= limit),
            },
        }
    }
}

impl Quantiles {
    /// Pairs are drawn whole.
    fn of(pairs: &[(f64, f64)], dice: &mut Dice) -> Option<Self> {
        Some(Self { p50: quantile_ratio(pairs, 500, dice)?, p99: quantile_ratio(pairs, 990, dice)? })
    }
}

pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(walls: impl Iterator<Item = u64>) -> Side {
        let mut side = Side::default();
        for wall_ns in walls {
            side.add(&Answer { wall_ns, ns: vec![wall_ns / 2; 2], ..Answer::default() });
        }
        side
    }

    #[test]
    fn a_goal_is_met_only_if_the_whole_interval_is_within() {
        let judged = |ours: fn(u64) -> u64| {
            let sides = Sides::both(side((100..200).map(ours)), side((100..200).map(|n| n * 1000)));
            Measure::new("x", sides, Some(Goal::Part(0.5)), &mut Dice::new(1)).goal.unwrap().met
        };
        assert!(judged(|n| n * 400));
        assert!(!judged(|n| n * 600));
        // The median is on the right side, but its interval reaches over.
        assert!(!judged(|n| if n % 100 < 52 { n * 490 } else { n * 900 }));
    }

    #[test]
    fn a_sample_counts_by_its_operations() {
        let sides = Sides::only_ours(side([2000, 2000].into_iter()));
        let measure = Measure::new("x", sides, None, &mut Dice::new(1));
        let speed = measure.ours.unwrap().speed.unwrap();
        assert_eq!(speed.per_second.round(), 1_000_000.0);
        assert_eq!((speed.p50, speed.p99), (0.000_001, 0.000_001));
        assert!(measure.ratio.is_none() && measure.goal.is_none());
    }

    #[test]
    fn waiting_is_judged_by_the_slowest_hundredth() {
        let judged = |slow: usize| {
            let mut side = Side::default();
            for _ in 0..20 {
                let ns = (0..100).map(|i| if i < slow { 50_000_000 } else { 1_000_000 }).collect();
                side.add(&Answer { wall_ns: 1, ns, ..Answer::default() });
            }
            let goal = Some(Goal::P99(Duration::from_millis(40)));
            Measure::new("x", Sides::only_ours(side), goal, &mut Dice::new(1)).goal.unwrap().met
        };
        assert!(judged(1));
        assert!(!judged(2));
    }

    #[test]
    fn a_tenth_more_is_allowed_in_the_median_and_in_the_slowest_hundredth() {
        let judged = |ours: fn(u64) -> u64| {
            let sides =
                Sides::both(side((1..=200).map(|n| ours(1000 + n))), side((1..=200).map(|n| 1000 + n)));
            Measure::new("x", sides, Some(Goal::Quantiles(1.10)), &mut Dice::new(1)).goal.unwrap().met
        };
        assert!(judged(|n| n * 109 / 100));
        assert!(!judged(|n| n * 112 / 100));
        // The median is as the peer's, the slowest three in two hundred are not.
        assert!(!judged(|n| if n > 1197 { n * 2 } else { n }));
    }
}
