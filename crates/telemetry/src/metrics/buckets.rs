use super::error::Error;

/// Upper bounds of a histogram's buckets: finite and increasing. The last bucket, `+Inf`, is implied.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets(Vec<f64>);

impl Buckets {
    /// The bounds of Prometheus' client libraries, for durations in seconds.
    pub const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

    /// These bounds.
    ///
    /// # Errors
    /// If one is not finite or not greater than the one before it.
    pub fn new(bounds: &[f64]) -> Result<Self, Error> {
        let is_finite = bounds.iter().all(|bound| bound.is_finite());
        let increases = bounds.iter().zip(bounds.iter().skip(1)).all(|(one, next)| one < next);
        if is_finite && increases { Ok(Self(bounds.to_vec())) } else { Err(Error::Buckets) }
    }

    /// `count` bounds from `first` on, each `factor` times the one before.
    ///
    /// # Errors
    /// If they do not increase, or become infinite.
    pub fn exponential(first: f64, factor: f64, count: usize) -> Result<Self, Error> {
        let bounds: Vec<f64> =
            std::iter::successors(Some(first), |bound| Some(bound * factor)).take(count).collect();
        Self::new(&bounds)
    }

    /// The bounds.
    #[must_use]
    pub fn bounds(&self) -> &[f64] {
        &self.0
    }

    /// The first bucket that takes the value; `None` for the implied last one. A value that is equal to a bound is in
    /// its bucket.
    pub(super) fn index(&self, value: f64) -> Option<usize> {
        self.0.iter().position(|bound| value <= *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_do_not_increase_are_refused() {
        for wrong in [&[1.0, 1.0][..], &[2.0, 1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(Buckets::new(wrong), Err(Error::Buckets), "{wrong:?}");
        }
        assert_eq!(Buckets::exponential(1.0, 1.0, 3), Err(Error::Buckets));
        assert_eq!(Buckets::exponential(1.0, 2.0, 3).unwrap().bounds(), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn a_value_equal_to_a_bound_is_in_its_bucket() {
        let buckets = Buckets::new(&[1.0, 2.0]).unwrap();
        let found = [0.5, 1.0, 1.5, 2.0, 2.5, f64::NAN].map(|value| buckets.index(value));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), None, None]);
    }
}
