use std::fmt;

use serde::{Deserialize, Serialize};

/// How many categories the targeted policies have: c0 to c1023.
pub(crate) const CATEGORIES: u32 = 1024;

/// Two different categories, lower first: what tells one pod's processes and files from another's
/// under an SELinux policy with multi-category security.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct CategoryPair {
    low: u32,
    high: u32,
}

/// Numbers that are no pair of categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("c{0},c{1} is not a category pair: it takes two different ones from c0 to c1023, lower first")]
pub struct NotAPair(pub u32, pub u32);

impl CategoryPair {
    /// How many pairs there are.
    pub const COUNT: u32 = CATEGORIES * (CATEGORIES - 1) / 2;

    /// The pair of these two.
    pub fn new(low: u32, high: u32) -> Result<Self, NotAPair> {
        if low < high && high < CATEGORIES { Ok(Self { low, high }) } else { Err(NotAPair(low, high)) }
    }

    /// The pair with this number when all are counted: c0,c1 then c0,c2 c1,c2 then c0,c3 ...
    #[must_use]
    pub fn nth(index: u32) -> Option<Self> {
        let index = (index < Self::COUNT).then_some(index)?;
        // high * (high - 1) / 2 pairs come before those of `high`.
        let high = (1 + 8 * index).isqrt().div_ceil(2);
        Some(Self { low: index - high * (high - 1) / 2, high })
    }

    /// The lower category.
    #[must_use]
    pub fn low(self) -> u32 {
        self.low
    }

    /// The higher category.
    #[must_use]
    pub fn high(self) -> u32 {
        self.high
    }
}

impl TryFrom<[u32; 2]> for CategoryPair {
    type Error = NotAPair;

    fn try_from([low, high]: [u32; 2]) -> Result<Self, NotAPair> {
        Self::new(low, high)
    }
}

impl From<CategoryPair> for [u32; 2] {
    fn from(pair: CategoryPair) -> Self {
        [pair.low, pair.high]
    }
}

impl fmt::Display for CategoryPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{},c{}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn counting_all_pairs_gives_each_just_once() {
        let all: HashSet<CategoryPair> =
            (0..CategoryPair::COUNT).map(|i| CategoryPair::nth(i).unwrap()).collect();
        assert_eq!(all.len(), 523_776);
        assert!(all.iter().all(|p| p.low() < p.high() && p.high() < 1024));
        assert_eq!(CategoryPair::nth(CategoryPair::COUNT), None);
        let first: Vec<String> = (0..4).filter_map(CategoryPair::nth).map(|pair| pair.to_string()).collect();
        assert_eq!(first, ["c0,c1", "c0,c2", "c1,c2", "c0,c3"]);
    }

    #[test]
    fn a_pair_is_two_different_categories_in_order() {
        assert_eq!(CategoryPair::new(0, 1023).unwrap().to_string(), "c0,c1023");
        assert!(CategoryPair::new(5, 5).is_err());
        assert!(CategoryPair::new(7, 5).is_err());
        assert!(CategoryPair::new(5, 1024).is_err());
    }
}
