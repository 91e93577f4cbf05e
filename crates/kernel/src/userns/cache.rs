use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pin::name_of;
use super::{Charge, IdMaps, UsernsFd};
use crate::Result;

type Held = HashMap<IdMaps, Arc<UsernsFd>>;

/// One user namespace for each map that is asked for, found again after a restart where it is pinned.
#[derive(Debug, Default)]
pub struct UsernsCache {
    /// The directory of the pins; without it none are made.
    pins: Option<PathBuf>,
    held: Mutex<Held>,
}

impl UsernsCache {
    /// For as long as this process runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With pins in this directory, which exists and is on a private mount.
    #[must_use]
    pub fn pinned_in(dir: &Path) -> Self {
        Self { pins: Some(dir.to_owned()), held: Mutex::default() }
    }

    /// The user namespace with these maps: the one in the cache, the one that is pinned, or a new one, counted against
    /// the pod's own user and pinned at once.
    pub fn get(&self, maps: &IdMaps) -> Result<Arc<UsernsFd>> {
        let mut held = self.held();
        if let Some(found) = held.get(maps) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.find_or_make(maps)?);
        held.insert(maps.clone(), Arc::clone(&found));
        Ok(found)
    }

    fn find_or_make(&self, maps: &IdMaps) -> Result<UsernsFd> {
        let Some(pin) = self.pin_of(maps) else { return UsernsFd::charged(maps, Charge::Pod) };
        if let Some(found) = UsernsFd::from_pin(&pin, maps)? {
            return Ok(found);
        }
        let made = UsernsFd::charged(maps, Charge::Pod)?;
        made.pin(&pin)?;
        Ok(made)
    }

    /// Drops the descriptor and removes the pin. The namespace is freed when no mount and no process uses it any more.
    pub fn forget(&self, maps: &IdMaps) -> Result<()> {
        let mut held = self.held();
        if let Some(pin) = self.pin_of(maps) {
            UsernsFd::unpin(&pin)?;
        }
        held.remove(maps);
        Ok(())
    }

    fn pin_of(&self, maps: &IdMaps) -> Option<PathBuf> {
        self.pins.as_ref().map(|dir| dir.join(name_of(maps)))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
