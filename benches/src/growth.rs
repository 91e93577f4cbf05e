//! A cost by the number of pods that run already: whether one more pod costs more on a full node than on an empty one.

use serde::Serialize;

use crate::dice::Dice;
use crate::measure::Unit;
use crate::stats::{Estimate, bootstrap, ratio_of_medians};

/// A cost that is at most a tenth higher counts as the same.
pub(crate) const LIMIT: f64 = 1.10;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Point {
    /// The pods that ran already.
    pub(crate) pods: u32,
    pub(crate) cost: f64,
}

/// What the samples show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// The whole interval of the ratio is at most [`LIMIT`].
    DoesNotGrow,
    /// The whole interval is above 1, and not all of it is at most [`LIMIT`].
    Grows,
    #[default]
    NotCertain,
}

impl Verdict {
    fn of(ratio: Option<Estimate>) -> Self {
        match ratio {
            Some(ratio) if ratio.high <= LIMIT => Self::DoesNotGrow,
            Some(ratio) if ratio.low > 1.0 => Self::Grows,
            _ => Self::NotCertain,
        }
    }
}

/// A cost by the number of pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Growth {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) points: Vec<Point>,
    /// The slope of the line of least squares: how much is added by each pod.
    pub(crate) per_pod: Option<Estimate>,
    /// What is divided by what.
    pub(crate) compares: String,
    pub(crate) ratio: Option<Estimate>,
    pub(crate) verdict: Verdict,
}

impl Growth {
    /// Of a cost that each pod has by itself, such as the time of its start: the median of the last `group` points by that of
    /// the first ones. The points are in their order.
    pub(crate) fn of_each(subject: Subject, points: Vec<Point>, group: usize, dice: &mut Dice) -> Self {
        let group = group.min(points.len() / 2);
        let costs: Vec<f64> = points.iter().map(|point| point.cost).collect();
        let (first, last) = (costs.get(..group), costs.get(costs.len() - group..));
        let ratio = first.zip(last).and_then(|(first, last)| ratio_of_medians(last, first, dice));
        Self::new(subject, points, dice)
            .judged(format!("median of the last {group} by the first {group}"), ratio)
    }

    /// Of a cost that all pods have together, such as memory: the slope over all points by that over the lower half of the
    /// numbers of pods. It is 1 where each pod adds the same, and 2 where each adds more than the one before it.
    pub(crate) fn of_all(subject: Subject, points: Vec<Point>, dice: &mut Dice) -> Self {
        let half = points.iter().map(|point| point.pods).max().unwrap_or(0) / 2;
        let ratio = bootstrap(&points, dice, |drawn| {
            let drawn: Vec<Point> = drawn.copied().collect();
            let lower = slope(&mut drawn.iter().filter(|point| point.pods <= half))?;
            let all = slope(&mut drawn.iter())?;
            (lower > 0.0).then(|| all / lower)
        });
        Self::new(subject, points, dice)
            .judged(format!("each of all pods by each of the first {half}"), ratio)
    }

    fn new(subject: Subject, points: Vec<Point>, dice: &mut Dice) -> Self {
        let per_pod = bootstrap(&points, dice, |drawn| slope(drawn));
        let Subject { name, unit } = subject;
        let (compares, ratio, verdict) = (String::new(), None, Verdict::default());
        Self { name, unit, points, per_pod, compares, ratio, verdict }
    }

    fn judged(self, compares: String, ratio: Option<Estimate>) -> Self {
        Self { compares, ratio, verdict: Verdict::of(ratio), ..self }
    }

    /// The height of the line of least squares above a number of pods.
    pub(crate) fn line_at(&self, pods: u32) -> Option<f64> {
        let slope = self.per_pod?.value;
        let count = f64::from(u32::try_from(self.points.len()).ok()?);
        let [x, y] =
            self.points.iter().fold([0.0, 0.0], |[x, y], one| [x + f64::from(one.pods), y + one.cost]);
        Some(y / count + slope * (f64::from(pods) - x / count))
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) unit: Unit,
}

/// The slope of the line of least squares; none where all points have the same number of pods.
fn slope(points: &mut dyn Iterator<Item = &Point>) -> Option<f64> {
    let [mut n, mut x, mut y, mut xx, mut xy] = [0.0; 5];
    for point in points {
        let pods = f64::from(point.pods);
        n += 1.0;
        x += pods;
        y += point.cost;
        xx += pods * pods;
        xy += pods * point.cost;
    }
    let spread = n * xx - x * x;
    (spread > 0.0).then(|| (n * xy - x * y) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { name: "x".into(), unit: Unit::Seconds }
    }

    /// Costs with some scatter, which is the same in every run.
    fn points(cost: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut dice = Dice::new(7);
        let scatter = |dice: &mut Dice| 0.9 + f64::from(u32::try_from(dice.below(200)).unwrap()) / 1000.0;
        (0..250).map(|pods| Point { pods, cost: cost(f64::from(pods)) * scatter(&mut dice) }).collect()
    }

    fn each(cost: impl Fn(f64) -> f64) -> Growth {
        Growth::of_each(subject(), points(cost), 50, &mut Dice::new(1))
    }

    fn all(cost: impl Fn(f64) -> f64) -> Growth {
        let levels = points(cost).into_iter().filter(|point| point.pods % 5 == 0).collect();
        Growth::of_all(subject(), levels, &mut Dice::new(1))
    }

    #[test]
    fn a_start_that_takes_the_same_on_a_full_node_does_not_grow() {
        let growth = each(|_| 0.2);
        assert_eq!(growth.verdict, Verdict::DoesNotGrow, "{:?}", growth.ratio);
        let slope = growth.per_pod.unwrap();
        assert!(slope.low < 0.0 && slope.high > 0.0, "{slope:?}");
    }

    #[test]
    fn a_start_that_takes_longer_with_each_pod_grows() {
        let growth = each(|pods| 0.2 + 0.0004 * pods);
        assert_eq!(growth.verdict, Verdict::Grows, "{:?}", growth.ratio);
        let slope = growth.per_pod.unwrap();
        assert!(slope.low > 0.0003 && slope.high < 0.0005, "{slope:?}");
    }

    #[test]
    fn few_points_with_much_scatter_are_not_certain() {
        let costs = [1.0, 3.0, 1.2, 2.9, 1.1, 3.2, 1.0, 3.1];
        let points = (0..).zip(costs).map(|(pods, cost)| Point { pods, cost }).collect();
        let growth = Growth::of_each(subject(), points, 4, &mut Dice::new(1));
        assert_eq!(growth.verdict, Verdict::NotCertain, "{:?}", growth.ratio);
        assert_eq!(Growth::of_each(subject(), vec![], 4, &mut Dice::new(1)).verdict, Verdict::NotCertain);
        assert_eq!(Growth::of_all(subject(), vec![], &mut Dice::new(1)).verdict, Verdict::NotCertain);
    }

    #[test]
    fn memory_that_rises_by_the_same_for_each_pod_does_not_grow_by_the_pod() {
        let growth = all(|pods| 1000.0 + 10.0 * pods);
        assert!((growth.ratio.unwrap().value - 1.0).abs() < 0.2, "{:?}", growth.ratio);
        assert_ne!(growth.verdict, Verdict::Grows);
    }

    #[test]
    fn memory_that_rises_by_more_with_each_pod_grows() {
        let growth = all(|pods| pods * pods);
        assert_eq!(growth.verdict, Verdict::Grows, "{:?}", growth.ratio);
        assert!((growth.ratio.unwrap().value - 2.0).abs() < 0.3, "{:?}", growth.ratio);
    }

    #[test]
    fn the_line_goes_through_points_that_are_on_one() {
        let points = [0, 10, 30].map(|pods| Point { pods, cost: 5.0 + 2.0 * f64::from(pods) });
        assert!((slope(&mut points.iter()).unwrap() - 2.0).abs() < 1e-9);
        let growth = Growth::of_all(subject(), points.to_vec(), &mut Dice::new(1));
        assert!((growth.line_at(20).unwrap() - 45.0).abs() < 1e-9);
        assert_eq!(slope(&mut points.iter().take(1)), None);
    }
}
