use std::collections::HashMap;

use selinux::CategoryPair;

/// How many rows have each pair: several holders can name one, and a pair is free when the last of them is gone.
#[derive(Debug, Default)]
pub(crate) struct PairCounts(HashMap<CategoryPair, u32>);

impl PairCounts {
    pub(crate) fn contains(&self, pair: CategoryPair) -> bool {
        self.0.contains_key(&pair)
    }

    pub(crate) fn add(&mut self, pair: CategoryPair) {
        *self.0.entry(pair).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, pair: CategoryPair) {
        let Some(count) = self.0.get_mut(&pair) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&pair);
        }
    }
}
