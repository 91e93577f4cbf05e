//! The engine: objects come, change and leave, in any order.

use std::collections::BTreeMap;

use slab::Slab;

use crate::effects::{Effects, Step};
use crate::index::Index;
use crate::keys::{ClaimKey, PodKey};
use crate::links::Links;
use crate::maps::HashMap;
use crate::objects::{Claim, CsiDriver, Life, PersistentVolume, Pod};
use crate::pools::Pools;
use crate::row::{Entries, Entry, Named, Row};
use crate::rules::Rules;
use crate::volumes::Volumes;
use crate::wishes::{Wishes, wishes};

/// All that is known of a cluster's pods and their volumes.
///
/// Whatever the order in which objects came, the same objects have the same conflicts. A change costs
/// what it touches: the pods that the object concerns, and for each of their volumes the number of
/// different wishes there, never the number of pairs.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) rules: Rules,
    pub(crate) pools: Pools,
    pub(crate) rows: Slab<Row>,
    pub(crate) pods: HashMap<PodKey, Index>,
    /// Pods of which there may be something to say that concerns no other.
    pub(crate) notable: BTreeMap<PodKey, Index>,
    pub(crate) links: Links,
    pub(crate) volumes: Volumes,
}

/// A change of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod has come or changed.
    Pod(Pod),
    /// A pod has gone. With a UID, only if the known one has no other: a pod of the same name may have
    /// come since.
    PodGone(PodKey, Option<String>),
    /// A claim has come or changed.
    Claim(Claim),
    /// A claim has gone.
    ClaimGone(ClaimKey),
    /// A persistent volume has come or changed.
    Volume(PersistentVolume),
    /// A persistent volume has gone.
    VolumeGone(String),
    /// A CSI driver has come or changed.
    Driver(CsiDriver),
    /// A CSI driver has gone.
    DriverGone(String),
}

impl Engine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// By which rules it compares.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes a change in, and tells which conflicts it caused and ended.
    pub fn apply(&mut self, change: &Change) -> Effects {
        match change {
            Change::Pod(pod) => self.put_pod(pod),
            Change::PodGone(key, uid) => self.remove_pod(key, uid.as_deref()),
            Change::Claim(claim) => self.put_claim(claim),
            Change::ClaimGone(key) => self.remove_claim(key),
            Change::Volume(volume) => self.put_volume(volume),
            Change::VolumeGone(name) => self.remove_volume(name),
            Change::Driver(driver) => self.put_driver(driver),
            Change::DriverGone(name) => self.remove_driver(name),
        }
    }

    /// A pod has come or changed. A finished one is as good as gone.
    pub fn put_pod(&mut self, pod: &Pod) -> Effects {
        if pod.life == Life::Finished {
            return self.remove_pod(&pod.key, None);
        }
        let known = self.pods.get(&pod.key).copied();
        let row = self.row_of(pod, known);
        let notable = row.notable();
        let index = match known {
            Some(index) => self.replace(index, row),
            None => self.insert(row),
        };
        if notable {
            self.notable.insert(pod.key.clone(), index);
        } else if !self.notable.is_empty() {
            self.notable.remove(&pod.key);
        }
        self.refresh_all(&[index])
    }

    /// A claim that the pod has named before is known by its place, and not looked up again.
    fn row_of(&mut self, pod: &Pod, known: Option<Index>) -> Row {
        let (links, old) = (&mut self.links, known.and_then(|index| self.rows.get(index)));
        let mut names = |named: Named<'_>| match named {
            Named::Claim(key, name) => {
                let known = |&claim: &Index| links.is_claim(claim, key.namespace(), name);
                let named = old.and_then(|row| row.claims().find(known));
                Some(named.unwrap_or_else(|| links.claim(&key.claim(name))))
            }
            Named::Driver(name) => Some(links.driver(name)),
        };
        Row::of(pod, &self.rules, &mut self.pools, &mut names)
    }

    fn insert(&mut self, row: Row) -> Index {
        let key = row.key.clone();
        let index = self.rows.insert(row);
        if let Some(row) = self.rows.get(index) {
            row.claims().for_each(|claim| self.links.add_user(claim, index));
            row.drivers().for_each(|driver| self.links.add_driver_user(driver, index));
        }
        self.pods.insert(key, index);
        index
    }

    /// Its places on volumes stay until they are looked at anew.
    fn replace(&mut self, index: Index, mut row: Row) -> Index {
        let Some(old) = self.rows.get_mut(index) else { return index };
        row.entries = std::mem::take(&mut old.entries);
        if !row.claims().eq(old.claims()) {
            // Added first, so that a claim that only this pod names stays where it is.
            row.claims().for_each(|claim| self.links.add_user(claim, index));
            old.claims().for_each(|claim| self.links.remove_user(claim, index));
        }
        row.drivers().for_each(|driver| self.links.add_driver_user(driver, index));
        old.drivers().for_each(|driver| self.links.remove_driver_user(driver, index));
        *old = row;
        index
    }

    /// A pod has gone. With a UID, only if the known one has no other.
    pub fn remove_pod(&mut self, key: &PodKey, uid: Option<&str>) -> Effects {
        let mut effects = Effects::default();
        if uid.is_some() && self.is_another(key, uid) {
            return effects;
        }
        let Some(index) = self.pods.remove(key) else { return effects };
        self.settle(index, Wishes::new(), &mut effects);
        if !self.notable.is_empty() {
            self.notable.remove(key);
        }
        if let Some(row) = self.rows.try_remove(index) {
            row.claims().for_each(|claim| self.links.remove_user(claim, index));
            row.drivers().for_each(|driver| self.links.remove_driver_user(driver, index));
        }
        effects
    }

    /// Whether the known pod of this name has another UID.
    fn is_another(&self, key: &PodKey, uid: Option<&str>) -> bool {
        let known = self.pods.get(key).and_then(|&index| self.rows.get(index)).and_then(Row::uid);
        matches!((uid, known), (Some(a), Some(b)) if a != b)
    }

    /// A claim has come or changed.
    pub fn put_claim(&mut self, claim: &Claim) -> Effects {
        let users = self.links.set_claim(&claim.key, Some(claim));
        self.refresh_all(&users)
    }

    /// A claim has gone.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> Effects {
        let users = self.links.set_claim(key, None);
        self.refresh_all(&users)
    }

    /// A persistent volume has come or changed.
    pub fn put_volume(&mut self, volume: &PersistentVolume) -> Effects {
        let users = self.links.set_volume(&volume.name, Some(volume));
        self.refresh_all(&users)
    }

    /// A persistent volume has gone.
    pub fn remove_volume(&mut self, name: &str) -> Effects {
        let users = self.links.set_volume(name, None);
        self.refresh_all(&users)
    }

    /// A CSI driver has come or changed.
    pub fn put_driver(&mut self, driver: &CsiDriver) -> Effects {
        let users = self.links.set_driver(&driver.name, Some(driver));
        self.refresh_all(&users)
    }

    /// A CSI driver has gone.
    pub fn remove_driver(&mut self, name: &str) -> Effects {
        let users = self.links.set_driver(name, None);
        self.refresh_all(&users)
    }

    fn refresh_all(&mut self, pods: &[Index]) -> Effects {
        let mut effects = Effects::default();
        for &pod in pods {
            let Some(wishes) =
                self.rows.get(pod).map(|row| wishes(&self.links, &self.rules, &self.pools, row))
            else {
                continue;
            };
            self.settle(pod, wishes, &mut effects);
        }
        effects
    }

    /// Moves a pod from where it was to where it wishes to be.
    fn settle(&mut self, pod: Index, wishes: Wishes, effects: &mut Effects) {
        let Some(row) = self.rows.get_mut(pod) else { return };
        let (key, before) = (row.key.clone(), std::mem::take(&mut row.entries));
        let mut entries = Entries::with_capacity(wishes.len());
        // Volumes are entered before others are left: one that both name keeps its place.
        for wish in wishes {
            let volume = self.volumes.index_among(&wish.id, before.iter().map(|e| e.volume));
            let old = before.iter().find(|e| e.volume == volume).map(|e| e.ask.clone());
            if !old.as_ref().is_some_and(|old| old.is(&wish.ask)) {
                self.volumes.join(volume, &wish.ask, pod);
                if let Some(old) = &old {
                    self.volumes.leave(volume, old, pod);
                }
                let after = Some(wish.ask.clone());
                effects.push(Step { volume: wish.id, pod: key.clone(), before: old, after });
            }
            entries.push(Entry { volume, ask: wish.ask, manner: wish.manner });
        }
        for entry in before {
            let left = !entries.iter().any(|e| e.volume == entry.volume);
            if left && let Some(id) = self.volumes.get(entry.volume).map(|v| v.id.clone()) {
                self.volumes.leave(entry.volume, &entry.ask, pod);
                effects.push(Step { volume: id, pod: key.clone(), before: Some(entry.ask), after: None });
            }
        }
        if let Some(row) = self.rows.get_mut(pod) {
            row.entries = entries;
        }
    }

    /// Whether nothing is left of anything. Holds when all that came has gone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.notable.is_empty() && self.links.is_empty() && self.volumes.is_empty()
    }
}
