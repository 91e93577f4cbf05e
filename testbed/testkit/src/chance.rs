//! How much is tried, and by what chance.

/// How much is to be tried: 1 unless `WARDLET_ROUNDS` says more.
#[must_use]
pub fn rounds() -> usize {
    rounds_or(1)
}

/// How much is to be tried, where another number is usual.
#[must_use]
pub fn rounds_or(usual: usize) -> usize {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual).max(1)
}

/// Chance that can be had again: the seed is printed, and taken from `WARDLET_SEED`.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// For the test, or the part of one, that is named.
    #[must_use]
    pub fn thrown(what: &str) -> Self {
        let clock =
            || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos().into());
        let given = std::env::var("WARDLET_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(clock);
        println!("{what}: WARDLET_SEED={seed}");
        Self(seed)
    }

    /// The same numbers each time.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to before the end; 0 if the end is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % end).unwrap_or_default()
    }

    /// One of them.
    ///
    /// # Panics
    /// Where there is none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of.get(self.below(of.len())).expect("there is something to pick").clone()
    }

    /// One way or the other.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_bounds() {
        let (mut one, mut two) = (Dice::seeded(7), Dice::seeded(7));
        for end in 1..200 {
            let number = one.below(end);
            assert!(number < end);
            assert_eq!(number, two.below(end));
        }
    }
}
