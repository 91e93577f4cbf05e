//! What many samples come to.

use serde::Serialize;

use crate::dice::Dice;

/// How often the samples are drawn anew to find an interval.
const DRAWS: usize = 2_000;

/// A value and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The smallest value that `per_mille` of a thousand values do not exceed. Reorders the values.
pub(crate) fn quantile(values: &mut [f64], per_mille: usize) -> Option<f64> {
    let rank = values.len().saturating_mul(per_mille).div_ceil(1000).max(1);
    nth(values, rank - 1)
}

/// The middle value, or the mean of the two in the middle. Reorders the values.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let upper = nth(values, values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = nth(values, values.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

/// The mean.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|&n| n > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

fn nth(values: &mut [f64], index: usize) -> Option<f64> {
    if index >= values.len() {
        return None;
    }
    let (_, found, _) = values.select_nth_unstable_by(index, f64::total_cmp);
    Some(*found)
}

/// The statistic of the samples, and how far it spreads when as many samples are drawn from them again
/// and again (the percentile bootstrap). Samples are drawn whole, so values that belong together must be
/// one sample.
pub(crate) fn bootstrap<T>(
    samples: &[T],
    dice: &mut Dice,
    statistic: impl Fn(&mut dyn Iterator<Item = &T>) -> Option<f64>,
) -> Option<Estimate> {
    let value = statistic(&mut samples.iter())?;
    let mut drawn = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut draw = (0..samples.len()).filter_map(|_| samples.get(dice.below(samples.len())));
        drawn.extend(statistic(&mut draw));
    }
    Some(Estimate { value, low: quantile(&mut drawn, 25)?, high: quantile(&mut drawn, 975)? })
}

/// The median of the pairs' own ratios, first by second. What slowed both halves of a pair down cancels
/// out.
pub(crate) fn median_ratio(pairs: &[(f64, f64)], dice: &mut Dice) -> Option<Estimate> {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    bootstrap(&ratios, dice, |drawn| median(&mut drawn.copied().collect::<Vec<_>>()))
}

/// The median of the first values by that of the second. They do not belong together: each side is drawn by itself.
pub(crate) fn ratio_of_medians(first: &[f64], second: &[f64], dice: &mut Dice) -> Option<Estimate> {
    let value = median(&mut first.to_vec())? / median(&mut second.to_vec())?;
    let mut draw = |values: &[f64]| {
        let drawn = (0..values.len()).filter_map(|_| values.get(dice.below(values.len())).copied());
        median(&mut drawn.collect::<Vec<_>>())
    };
    let mut drawn: Vec<f64> = (0..DRAWS).filter_map(|_| Some(draw(first)? / draw(second)?)).collect();
    Some(Estimate { value, low: quantile(&mut drawn, 25)?, high: quantile(&mut drawn, 975)? })
}

/// The quantile of the first values by that of the second, pairs drawn whole.
pub(crate) fn quantile_ratio(pairs: &[(f64, f64)], per_mille: usize, dice: &mut Dice) -> Option<Estimate> {
    bootstrap(pairs, dice, |drawn| {
        let (mut first, mut second): (Vec<f64>, Vec<f64>) = drawn.copied().unzip();
        Some(quantile(&mut first, per_mille)? / quantile(&mut second, per_mille)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0, 2.0]), Some(3.5));
    }

    #[test]
    fn a_quantile_is_the_value_at_its_rank() {
        let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut hundred, 500), Some(50.0));
        assert_eq!(quantile(&mut hundred, 990), Some(99.0));
        assert_eq!(quantile(&mut hundred, 1000), Some(100.0));
        assert_eq!(quantile(&mut hundred, 0), Some(1.0));
        assert_eq!(quantile(&mut [], 500), None);
    }

    #[test]
    fn pairs_that_are_all_half_have_the_ratio_one_half_and_no_doubt() {
        let pairs: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), 2.0 * f64::from(n))).collect();
        let found = median_ratio(&pairs, &mut Dice::new(1)).unwrap();
        assert_eq!(found, Estimate { value: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn quantiles_are_compared_with_the_same_quantile_of_the_other_side() {
        let pairs: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), f64::from(101 - n) * 2.0)).collect();
        for per_mille in [500, 990] {
            let found = quantile_ratio(&pairs, per_mille, &mut Dice::new(1)).unwrap();
            assert_eq!(found.value, 0.5);
            assert!(found.low <= 0.5 && found.high >= 0.5, "{found:?}");
        }
        assert_eq!(quantile_ratio(&[], 500, &mut Dice::new(1)), None);
    }

    /// In pairs, by their places, these would have a narrow interval.
    #[test]
    fn sides_that_do_not_belong_together_are_drawn_apart() {
        let values = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0];
        let found = ratio_of_medians(&values, &values, &mut Dice::new(1)).unwrap();
        assert_eq!(found.value, 1.0);
        assert!(found.low < 0.5 && found.high > 2.0, "{found:?}");
        assert_eq!(ratio_of_medians(&values, &[], &mut Dice::new(1)), None);
    }

    #[test]
    fn a_drift_that_hits_both_halves_of_each_pair_does_not_move_the_ratio() {
        let pairs: Vec<(f64, f64)> = (1..=50).flat_map(|n| [(f64::from(n), f64::from(n)); 2]).collect();
        assert_eq!(median_ratio(&pairs, &mut Dice::new(1)).unwrap().value, 1.0);
    }

    /// The median of n values lies, with 95 %, between the order statistics n/2 ± 0.98 √n: for the
    /// ratios 1 to 101 between about 41 and 61.
    #[test]
    fn the_interval_of_a_known_spread_is_the_one_from_theory() {
        let pairs: Vec<(f64, f64)> = (1..=101).map(|n| (f64::from(n), 1.0)).collect();
        let found = median_ratio(&pairs, &mut Dice::new(1)).unwrap();
        assert_eq!(found.value, 51.0);
        assert!((39.0..=43.0).contains(&found.low), "{found:?}");
        assert!((59.0..=63.0).contains(&found.high), "{found:?}");
    }

    #[test]
    fn more_samples_make_a_narrower_interval() {
        let width = |n: u32| {
            let pairs: Vec<(f64, f64)> = (0..n).map(|i| (1.0 + f64::from(i % 10), 1.0)).collect();
            let found = median_ratio(&pairs, &mut Dice::new(1)).unwrap();
            found.high - found.low
        };
        assert!(width(1000) < width(50));
    }

    #[test]
    fn nothing_measured_is_no_ratio() {
        assert_eq!(median_ratio(&[], &mut Dice::new(1)), None);
    }
}
