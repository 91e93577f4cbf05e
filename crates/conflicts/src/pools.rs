//! Texts and rules that many pods share, kept once.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use selinux::{PartialLabel, SelinuxOptions};

use crate::ask::label_of;
use crate::maps::{HashMap, HashSet};
use crate::placement::Placement;
use crate::rules::Rules;
use crate::steering::{PodLabels, Steering};

#[derive(Debug, Default)]
pub(crate) struct Pools {
    texts: Pool<str>,
    no_label: Arc<PartialLabel>,
    labels: Pool<PartialLabel>,
    by_options: HashMap<SelinuxOptions, Arc<PartialLabel>>,
    options_room: usize,
    steerings: Pool<Steering>,
    pod_labels: Pool<PodLabels>,
    no_pod_labels: Arc<PodLabels>,
    /// Of pods that can go anywhere.
    free: Option<Arc<Steering>>,
}

impl Pools {
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.borrowed(text)
    }

    /// The label of pods that ask for none.
    pub(crate) fn no_label(&self) -> Arc<PartialLabel> {
        self.no_label.clone()
    }

    /// The label that options ask for under the rules, which are the same each time.
    pub(crate) fn label(&mut self, options: &SelinuxOptions, rules: &Rules) -> Arc<PartialLabel> {
        if let Some(label) = self.by_options.get(options) {
            return label.clone();
        }
        let label = self.labels.shared(label_of(options, rules.defaults.as_ref()).into());
        // Two holders are this map and the pool: no pod asks for it.
        if self.by_options.len() >= self.options_room {
            self.by_options.retain(|_, label| Arc::strong_count(label) > 2);
            self.options_room = (self.by_options.len() * 2).max(ROOM);
        }
        self.by_options.insert(options.clone(), label.clone());
        label
    }

    pub(crate) fn steering(&mut self, placement: &Placement) -> Arc<Steering> {
        if Steering::is_free(placement) {
            return self.free.get_or_insert_with(|| Steering::of(placement).into()).clone();
        }
        self.steerings.shared(Arc::new(Steering::of(placement)))
    }

    pub(crate) fn pod_labels(&mut self, labels: &BTreeMap<String, String>) -> Arc<PodLabels> {
        if labels.is_empty() {
            return self.no_pod_labels.clone();
        }
        let pairs = labels.iter().map(|(k, v)| (self.texts.borrowed(k), self.texts.borrowed(v)));
        let pairs: Arc<PodLabels> = pairs.collect();
        self.pod_labels.shared(pairs)
    }
}

/// Interned values: equal ones are kept once, for as long as an entry has them.
#[derive(Debug)]
struct Pool<T: ?Sized> {
    held: HashSet<Arc<T>>,
    /// How many may be held before those that no entry has are dropped.
    room: usize,
}

const ROOM: usize = 64;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { held: HashSet::default(), room: ROOM }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    fn shared(&mut self, value: Arc<T>) -> Arc<T> {
        match self.held.get(&*value) {
            Some(held) => held.clone(),
            None => self.keep(value),
        }
    }

    fn borrowed(&mut self, value: &T) -> Arc<T>
    where
        Arc<T>: Borrow<T> + for<'a> From<&'a T>,
    {
        match self.held.get(value) {
            Some(held) => held.clone(),
            None => self.keep(value.into()),
        }
    }

    /// Looks through all values only when their number has doubled: a constant cost per value.
    fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if self.held.len() >= self.room {
            self.held.retain(|held| Arc::strong_count(held) > 1);
            self.room = (self.held.len() * 2).max(ROOM);
        }
        self.held.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_those_that_nobody_has_are_let_go() {
        let mut pool = Pool::<str>::default();
        let kept = pool.borrowed("kept");
        assert!(Arc::ptr_eq(&kept, &pool.borrowed("kept")));
        for n in 0..10_000 {
            pool.borrowed(&n.to_string());
        }
        assert!(pool.held.len() <= 2 * ROOM, "{}", pool.held.len());
        assert!(Arc::ptr_eq(&kept, &pool.borrowed("kept")));
    }
}
