use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The objects of a resource that are known, and those that a list under way has had.
#[derive(Debug)]
pub(crate) struct Known<K, V> {
    all: HashMap<K, V>,
    /// `None` while no list is under way.
    listed: Option<HashSet<K>>,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self { all: HashMap::new(), listed: None }
    }
}

impl<K: Clone + Eq + Hash, V> Known<K, V> {
    /// A list begins. One that was under way has failed.
    pub(super) fn begin(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// The list is complete: returns the objects that it did not have, which are known no more.
    pub(super) fn finish(&mut self) -> Vec<K> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<K> = self.all.keys().filter(|key| !listed.contains(key)).cloned().collect();
        for key in &gone {
            self.all.remove(key);
        }
        gone
    }

    /// Whether a list is under way: objects that are gone may still be known.
    pub(super) fn is_listing(&self) -> bool {
        self.listed.is_some()
    }

    /// An object has come or changed; returns what was known of it.
    pub(super) fn put(&mut self, key: K, value: V) -> Option<V> {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        self.all.insert(key, value)
    }

    /// An object has gone; returns what was known of it.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        if let Some(listed) = &mut self.listed {
            listed.remove(key);
        }
        self.all.remove(key)
    }

    /// Every object.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.all.iter()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(known: &Known<&'static str, u8>) -> Vec<&'static str> {
        let mut names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_a_complete_list_has_not_is_gone_and_a_list_that_failed_removes_nothing() {
        let mut known = Known::default();
        known.begin();
        known.put("a", 1);
        known.put("b", 1);
        assert!(known.is_listing());
        assert_eq!(known.finish(), Vec::<&str>::new());
        known.put("c", 1);
        known.begin();
        known.put("a", 2);
        assert_eq!(names(&known), ["a", "b", "c"]);
        // It failed after a page, and another one begins.
        known.begin();
        known.put("b", 2);
        let mut gone = known.finish();
        gone.sort_unstable();
        assert_eq!((gone, names(&known)), (vec!["a", "c"], vec!["b"]));
        assert_eq!((known.remove(&"b"), known.len(), known.is_listing()), (Some(2), 0, false));
    }
}
