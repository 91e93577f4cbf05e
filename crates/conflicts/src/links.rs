//! From a pod's claim to the volume behind it, and back to all pods that an object concerns.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use selinux::Scope;
use slab::Slab;
use smallvec::SmallVec;

use crate::index::Index;
use crate::keys::{ClaimKey, VolumeId};
use crate::maps::HashMap;
use crate::objects::{Claim, CsiDriver, PersistentVolume, VolumeSource};
use crate::row::Span;

/// Claims, volumes and drivers, each known or only named by others. They know each other by their
/// places, so that nothing is looked up by name twice.
#[derive(Debug, Default)]
pub(crate) struct Links {
    claims: Named<ClaimKey, ClaimRow>,
    volumes: Named<Arc<str>, VolumeRow>,
    drivers: Named<Arc<str>, DriverRow>,
}

#[derive(Debug, Default)]
struct ClaimRow {
    known: Option<KnownClaim>,
    users: SmallVec<[Index; 4]>,
}

#[derive(Debug)]
struct KnownClaim {
    uid: Option<Box<str>>,
    volume: Option<Index>,
}

#[derive(Debug, Default)]
struct VolumeRow {
    known: Option<KnownVolume>,
    /// The claims that say they are bound to it.
    claims: SmallVec<[Index; 2]>,
}

#[derive(Debug)]
struct KnownVolume {
    id: VolumeId,
    source: Source,
    span: Span,
    owner: Option<(ClaimKey, Option<Box<str>>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Csi(Index),
    /// Known without a driver's word.
    Mountable(bool),
}

#[derive(Debug, Default)]
struct DriverRow {
    selinux_mount: Option<bool>,
    volumes: BTreeSet<Index>,
    /// The pods that name a volume of this driver themselves.
    users: SmallVec<[Index; 1]>,
}

/// The entry of an object that is not known.
trait Unused {
    /// Whether no object names it either.
    fn unused(&self) -> bool;
}

impl Unused for ClaimRow {
    fn unused(&self) -> bool {
        self.known.is_none() && self.users.is_empty()
    }
}

impl Unused for VolumeRow {
    fn unused(&self) -> bool {
        self.known.is_none() && self.claims.is_empty()
    }
}

impl Unused for DriverRow {
    fn unused(&self) -> bool {
        self.selinux_mount.is_none() && self.volumes.is_empty() && self.users.is_empty()
    }
}

/// Rows with names.
#[derive(Debug)]
struct Named<K, T> {
    rows: Slab<(K, T)>,
    places: HashMap<K, Index>,
}

impl<K, T> Default for Named<K, T> {
    fn default() -> Self {
        Self { rows: Slab::new(), places: HashMap::default() }
    }
}

impl<K: Clone + Eq + Hash, T: Default + Unused> Named<K, T> {
    /// The place of this name; made if there is none.
    fn place<Q: Hash + Eq + ?Sized>(&mut self, name: &Q) -> Index
    where
        K: Borrow<Q> + for<'a> From<&'a Q>,
    {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let name = K::from(name);
        let place = self.rows.insert((name.clone(), T::default()));
        self.places.insert(name, place);
        place
    }

    fn get(&self, place: Index) -> Option<&T> {
        self.rows.get(place).map(|(_, row)| row)
    }

    fn get_mut(&mut self, place: Index) -> Option<&mut T> {
        self.rows.get_mut(place).map(|(_, row)| row)
    }

    /// Lets a row go if nothing is left of it.
    fn prune(&mut self, place: Index) {
        if self.get(place).is_some_and(Unused::unused)
            && let Some((name, _)) = self.rows.try_remove(place)
        {
            self.places.remove(&name);
        }
    }
}

/// What a claim leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located<'e> {
    pub(crate) id: &'e VolumeId,
    /// Whether what provides it can mount it with a label.
    pub(crate) mountable: bool,
    pub(crate) span: Span,
    pub(crate) scope: Scope,
}

/// Why a claim leads to no volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unresolved {
    /// The claim is not known.
    NoClaim,
    /// It is not bound.
    NotBound,
    /// The volume that it is bound to is not known.
    NoVolume,
    /// That volume is another claim's.
    OtherClaims,
}

impl Links {
    /// The index of a claim, if an object has named it.
    pub(crate) fn find_claim(&self, claim: &ClaimKey) -> Option<Index> {
        self.claims.places.get(claim).copied()
    }

    /// Whether this is the place of that claim.
    pub(crate) fn is_claim(&self, place: Index, namespace: &str, name: &str) -> bool {
        let key = self.claims.rows.get(place).map(|(key, _)| key);
        key.is_some_and(|key| key.name() == name && key.namespace() == namespace)
    }

    /// The index of a claim for a pod that uses it from now on.
    pub(crate) fn claim(&mut self, claim: &ClaimKey) -> Index {
        self.claims.place(claim)
    }

    /// The index of a driver, if an object has named it.
    pub(crate) fn find_driver(&self, name: &str) -> Option<Index> {
        self.drivers.places.get(name).copied()
    }

    /// The index of a driver for a pod that names it from now on.
    pub(crate) fn driver(&mut self, name: &str) -> Index {
        self.drivers.place(name)
    }

    /// Whether a driver says that it can mount with a label.
    pub(crate) fn driver_mounts(&self, driver: Index) -> bool {
        self.drivers.get(driver).is_some_and(|d| d.selinux_mount == Some(true))
    }

    pub(crate) fn locate(&self, claim: Index) -> Result<Located<'_>, Unresolved> {
        let (key, row) = self.claims.rows.get(claim).ok_or(Unresolved::NoClaim)?;
        let known = row.known.as_ref().ok_or(Unresolved::NoClaim)?;
        let volume = known.volume.ok_or(Unresolved::NotBound)?;
        let volume = self.volumes.get(volume).and_then(|v| v.known.as_ref()).ok_or(Unresolved::NoVolume)?;
        if let Some((owner, uid)) = &volume.owner
            && (owner != key || matches!((uid, &known.uid), (Some(a), Some(b)) if a != b))
        {
            return Err(Unresolved::OtherClaims);
        }
        let mountable = match volume.source {
            Source::Csi(driver) => self.driver_mounts(driver),
            Source::Mountable(mountable) => mountable,
        };
        Ok(Located { id: &volume.id, mountable, span: volume.span, scope: volume.span.scope() })
    }

    fn users(&self, claims: &[Index]) -> Vec<Index> {
        let rows = claims.iter().filter_map(|&claim| self.claims.get(claim));
        rows.flat_map(|row| &row.users).copied().collect()
    }

    pub(crate) fn add_user(&mut self, claim: Index, pod: Index) {
        if let Some(row) = self.claims.get_mut(claim) {
            row.users.push(pod);
        }
    }

    pub(crate) fn remove_user(&mut self, claim: Index, pod: Index) {
        let Some(row) = self.claims.get_mut(claim) else { return };
        if let Some(place) = row.users.iter().position(|&p| p == pod) {
            row.users.swap_remove(place);
        }
        self.claims.prune(claim);
    }

    pub(crate) fn add_driver_user(&mut self, driver: Index, pod: Index) {
        if let Some(row) = self.drivers.get_mut(driver) {
            row.users.push(pod);
        }
    }

    pub(crate) fn remove_driver_user(&mut self, driver: Index, pod: Index) {
        let Some(row) = self.drivers.get_mut(driver) else { return };
        if let Some(place) = row.users.iter().position(|&p| p == pod) {
            row.users.swap_remove(place);
        }
        self.drivers.prune(driver);
    }

    /// Puts a claim, or takes it away; tells which pods it concerns.
    pub(crate) fn set_claim(&mut self, key: &ClaimKey, claim: Option<&Claim>) -> Vec<Index> {
        let place = self.claims.place(key);
        let volume = claim.and_then(|c| c.volume.as_deref()).map(|name| self.volumes.place(name));
        if let Some(row) = volume.and_then(|volume| self.volumes.get_mut(volume)) {
            row.claims.push(place);
        }
        let known = claim.map(|c| KnownClaim { uid: c.uid.as_deref().map(Into::into), volume });
        let before = self.claims.get_mut(place).and_then(|row| std::mem::replace(&mut row.known, known));
        if let Some(volume) = before.and_then(|known| known.volume) {
            self.unbind(volume, place);
        }
        let users = self.users(&[place]);
        self.claims.prune(place);
        users
    }

    fn unbind(&mut self, volume: Index, claim: Index) {
        let Some(row) = self.volumes.get_mut(volume) else { return };
        if let Some(place) = row.claims.iter().position(|&c| c == claim) {
            row.claims.swap_remove(place);
        }
        self.volumes.prune(volume);
    }

    /// Puts a volume, or takes it away; tells which pods it concerns.
    pub(crate) fn set_volume(&mut self, name: &str, volume: Option<&PersistentVolume>) -> Vec<Index> {
        let place = self.volumes.place(name);
        let known = volume.map(|volume| self.known_volume(place, volume));
        let source = known.as_ref().map(|known| known.source);
        let Some(row) = self.volumes.get_mut(place) else { return Vec::new() };
        let before = std::mem::replace(&mut row.known, known);
        let users = self.volumes.get(place).map_or_else(Vec::new, |row| self.users(&row.claims));
        match before.map(|known| known.source) {
            Some(Source::Csi(driver)) if source != Some(Source::Csi(driver)) => {
                self.leave_driver(driver, place);
            }
            _ => {}
        }
        self.volumes.prune(place);
        users
    }

    fn known_volume(&mut self, place: Index, volume: &PersistentVolume) -> KnownVolume {
        let source = match &volume.source {
            VolumeSource::Csi { driver } => {
                let driver = self.drivers.place(driver.as_str());
                if let Some(row) = self.drivers.get_mut(driver) {
                    row.volumes.insert(place);
                }
                Source::Csi(driver)
            }
            VolumeSource::Iscsi | VolumeSource::FibreChannel => Source::Mountable(true),
            VolumeSource::Other => Source::Mountable(false),
        };
        let owner = volume.claim.as_ref().map(|c| {
            // The same text as the claim's own, if that is known.
            let key = self.claims.places.get_key_value(&c.key).map_or(&c.key, |(key, _)| key);
            (key.clone(), c.uid.as_deref().map(Into::into))
        });
        KnownVolume { id: volume.id.clone(), source, span: Span::of(&volume.access_modes), owner }
    }

    fn leave_driver(&mut self, driver: Index, volume: Index) {
        if let Some(row) = self.drivers.get_mut(driver) {
            row.volumes.remove(&volume);
        }
        self.drivers.prune(driver);
    }

    /// Puts a driver, or takes it away; tells which pods that concerns: none if it can what it could.
    pub(crate) fn set_driver(&mut self, name: &str, driver: Option<&CsiDriver>) -> Vec<Index> {
        let place = self.drivers.place(name);
        let Some(row) = self.drivers.get_mut(place) else { return Vec::new() };
        let before = std::mem::replace(&mut row.selinux_mount, driver.map(|d| d.selinux_mount));
        let changes = (before == Some(true)) != (row.selinux_mount == Some(true));
        let users = if changes { self.users_of_driver(place) } else { Vec::new() };
        self.drivers.prune(place);
        users
    }

    fn users_of_driver(&self, driver: Index) -> Vec<Index> {
        let Some(row) = self.drivers.get(driver) else { return Vec::new() };
        let volumes = row.volumes.iter().filter_map(|&volume| self.volumes.get(volume));
        let claiming = volumes.flat_map(|row| self.users(&row.claims));
        claiming.chain(row.users.iter().copied()).collect()
    }

    /// The claims that pods use and that lead to no volume.
    pub(crate) fn unresolved(&self) -> impl Iterator<Item = (&ClaimKey, Unresolved)> {
        self.claims.places.iter().filter_map(|(key, &place)| {
            let used = self.claims.get(place).is_some_and(|row| !row.users.is_empty());
            let why = self.locate(place).err()?;
            used.then_some((key, why))
        })
    }

    /// The drivers that volumes name and whose objects are not known.
    pub(crate) fn undeclared(&self) -> impl Iterator<Item = &str> {
        let unknown = |place: &Index| self.drivers.get(*place).is_some_and(|d| d.selinux_mount.is_none());
        self.drivers.places.iter().filter(move |(_, place)| unknown(place)).map(|(name, _)| &**name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.places.is_empty() && self.volumes.places.is_empty() && self.drivers.places.is_empty()
    }
}
