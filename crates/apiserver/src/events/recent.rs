//! A map that forgets the entries that were not used for the longest time.

use std::collections::HashMap;
use std::hash::Hash;

/// At most so many entries.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    limit: usize,
    uses: u64,
    entries: HashMap<K, Used<V>>,
}

#[derive(Debug)]
struct Used<V> {
    last: u64,
    value: V,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, uses: 0, entries: HashMap::new() }
    }

    /// The entry of this key; a new one if there is none.
    pub(super) fn entry(&mut self, key: &K, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if !self.entries.contains_key(key) && self.entries.len() >= self.limit {
            let oldest = self.entries.iter().min_by_key(|(_, used)| used.last).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.entries.remove(&oldest));
        }
        let last = self.uses;
        let used = self.entries.entry(key.clone()).or_insert_with(|| Used { last, value: new() });
        used.last = last;
        &mut used.value
    }

    /// The entry of this key, if there is one.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|used| &mut used.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_not_used_for_the_longest_time_goes_first() {
        let mut recent = Recent::new(2);
        recent.entry(&"a", || 1);
        recent.entry(&"b", || 2);
        recent.entry(&"a", || 9);
        recent.entry(&"c", || 3);
        assert_eq!((recent.get_mut(&"a").copied(), recent.get_mut(&"b").copied()), (Some(1), None));
        assert_eq!(recent.entries.len(), 2);
    }
}
