//! What there is, in memory. The records on disk are what counts; this is them, read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::durable;
use crate::error::{Error, Result};
use crate::id::Id;
use crate::layout::{ContainerPlaces, SandboxPlaces};
use crate::life::Life;
use crate::records::{ContainerRecord, SandboxRecord, SandboxStage};

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: Id,
    pub(crate) places: SandboxPlaces,
    /// Held by whoever makes, changes or unmakes the sandbox or makes or removes a container of it. Nothing
    /// of another sandbox waits for it.
    pub(crate) gate: tokio::sync::Mutex<()>,
    record: Mutex<SandboxRecord>,
}

impl Sandbox {
    pub(crate) fn new(record: SandboxRecord, places: SandboxPlaces) -> Self {
        Self {
            id: record.id.clone(),
            places,
            gate: tokio::sync::Mutex::default(),
            record: Mutex::new(record),
        }
    }

    pub(crate) fn record(&self) -> SandboxRecord {
        locked(&self.record).clone()
    }

    pub(crate) fn is(&self, stage: SandboxStage) -> bool {
        locked(&self.record).stage == stage
    }

    /// Changes the record, on disk first. Blocks; only under the gate.
    pub(crate) fn change(&self, change: impl FnOnce(&mut SandboxRecord)) -> Result<()> {
        let mut changed = self.record();
        change(&mut changed);
        durable::write(&self.places.record(), &changed)?;
        *locked(&self.record) = changed;
        Ok(())
    }
}

/// A container.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: Id,
    pub(crate) sandbox: Id,
    pub(crate) places: ContainerPlaces,
    /// What has become of it, for whoever waits.
    pub(crate) life: watch::Sender<Life>,
    record: Mutex<ContainerRecord>,
}

impl Container {
    pub(crate) fn new(record: ContainerRecord, places: ContainerPlaces, life: Life) -> Self {
        let (id, sandbox) = (record.id.clone(), record.sandbox.clone());
        Self { id, sandbox, places, life: watch::Sender::new(life), record: Mutex::new(record) }
    }

    pub(crate) fn record(&self) -> ContainerRecord {
        locked(&self.record).clone()
    }

    pub(crate) fn life(&self) -> Life {
        self.life.borrow().clone()
    }

    /// Changes the record, on disk first. Blocks; only under the sandbox's gate.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ContainerRecord)) -> Result<()> {
        let mut changed = self.record();
        change(&mut changed);
        durable::write(&self.places.record(), &changed)?;
        *locked(&self.record) = changed;
        Ok(())
    }

    /// Until it has ended.
    pub(crate) async fn ended(&self) {
        let mut life = self.life.subscribe();
        // The sender is ours, so it cannot be gone.
        let _ = life.wait_for(|life| matches!(life, Life::Exited(_))).await;
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    sandboxes: BTreeMap<Id, Arc<Sandbox>>,
    containers: BTreeMap<Id, Arc<Container>>,
    /// Names that are taken, and by whom.
    names: BTreeMap<String, Id>,
}

impl Book {
    /// Takes a name, until it is given back.
    pub(crate) fn reserve(&self, what: &'static str, name: &str, id: &Id) -> Result<()> {
        let mut shelves = locked(&self.0);
        if let Some(by) = shelves.names.get(name) {
            return Err(Error::NameTaken { what, name: name.to_owned(), by: by.to_string() });
        }
        shelves.names.insert(name.to_owned(), id.clone());
        Ok(())
    }

    /// Gives back the names of this one.
    pub(crate) fn release(&self, id: &Id) {
        locked(&self.0).names.retain(|_, by| by != id);
    }

    pub(crate) fn add_sandbox(&self, sandbox: Arc<Sandbox>) {
        locked(&self.0).sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    pub(crate) fn add_container(&self, container: Arc<Container>) {
        locked(&self.0).containers.insert(container.id.clone(), container);
    }

    /// With its name.
    pub(crate) fn remove_sandbox(&self, id: &Id) {
        locked(&self.0).sandboxes.remove(id);
        self.release(id);
    }

    /// With its name.
    pub(crate) fn remove_container(&self, id: &Id) {
        locked(&self.0).containers.remove(id);
        self.release(id);
    }

    pub(crate) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        locked(&self.0).sandboxes.values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        locked(&self.0).containers.values().cloned().collect()
    }

    /// Those of one sandbox, the oldest first.
    pub(crate) fn containers_of(&self, sandbox: &Id) -> Vec<Arc<Container>> {
        let mut found = self.containers();
        found.retain(|container| container.sandbox == *sandbox);
        found.sort_by_key(|container| container.record().created_at);
        found
    }

    /// The sandbox with this ID, or with the only one that begins so.
    pub(crate) fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>> {
        one(&locked(&self.0).sandboxes, id).ok_or_else(|| not_found("sandbox", id))
    }

    /// The container with this ID, or with the only one that begins so.
    pub(crate) fn container(&self, id: &str) -> Result<Arc<Container>> {
        one(&locked(&self.0).containers, id).ok_or_else(|| not_found("container", id))
    }
}

fn one<T>(shelf: &BTreeMap<Id, Arc<T>>, id: &str) -> Option<Arc<T>> {
    if id.is_empty() {
        return None;
    }
    let mut found = shelf.iter().filter(|(known, _)| known.as_str().starts_with(id));
    match (found.next(), found.next()) {
        (Some((_, only)), None) => Some(Arc::clone(only)),
        _ => None,
    }
}

fn not_found(what: &'static str, id: &str) -> Error {
    Error::NotFound { what, id: id.to_owned() }
}

/// Whoever panicked with it has changed nothing: each change is one step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_until_it_is_given_back() {
        let book = Book::default();
        let (one, two) = (Id::random().unwrap(), Id::random().unwrap());
        book.reserve("sandbox", "web", &one).unwrap();
        let error = book.reserve("sandbox", "web", &two).unwrap_err();
        assert!(error.to_string().contains(one.as_str()), "{error}");
        book.release(&one);
        book.reserve("sandbox", "web", &two).unwrap();
    }

    #[test]
    fn the_beginning_of_an_id_is_enough_if_only_one_has_it() {
        let id = |text: &str| Id::parse(&format!("{text}{}", "0".repeat(32 - text.len()))).unwrap();
        let shelf: BTreeMap<Id, Arc<u8>> =
            [(id("ab1"), Arc::new(1)), (id("ab2"), Arc::new(2))].into_iter().collect();
        assert_eq!(one(&shelf, "ab1").as_deref(), Some(&1));
        assert_eq!(one(&shelf, "ab"), None);
        assert_eq!(one(&shelf, ""), None);
        assert_eq!(one(&shelf, id("ab2").as_str()).as_deref(), Some(&2));
    }
}
