//! What there is, in memory. The records on disk are what counts; this is them, read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::files;
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
    /// Held by whoever starts or ends its monitor.
    pub(crate) monitor: Mutex<()>,
    record: Mutex<SandboxRecord>,
}

impl Sandbox {
    pub(crate) fn new(record: SandboxRecord, places: SandboxPlaces) -> Self {
        Self {
            id: record.id.clone(),
            places,
            gate: tokio::sync::Mutex::default(),
            monitor: Mutex::default(),
            record: Mutex::new(record),
        }
    }

    pub(crate) fn record(&self) -> SandboxRecord {
        locked(&self.record).clone()
    }

    pub(crate) fn is(&self, stage: SandboxStage) -> bool {
        locked(&self.record).stage == stage
    }

    /// The SELinux level of its processes.
    pub(crate) fn level(&self) -> Option<labels::Level> {
        locked(&self.record).label.as_ref()?.level().cloned()
    }

    /// Changes the record, on disk first. Blocks; only under the gate.
    pub(crate) fn change(&self, change: impl FnOnce(&mut SandboxRecord)) -> Result<()> {
        let mut changed = self.record();
        change(&mut changed);
        files::write(&self.places.record(), &changed)?;
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
    /// Held while it begins or ends and that is told, so that nobody hears of its end first.
    pub(crate) turns: Mutex<()>,
    record: Mutex<ContainerRecord>,
}

impl Container {
    pub(crate) fn new(record: ContainerRecord, places: ContainerPlaces, life: Life) -> Self {
        let (id, sandbox) = (record.id.clone(), record.sandbox.clone());
        let (life, turns, record) = (watch::Sender::new(life), Mutex::default(), Mutex::new(record));
        Self { id, sandbox, places, life, turns, record }
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
        files::write(&self.places.record(), &changed)?;
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
        one(&locked(&self.0).sandboxes, ("sandbox", id))
    }

    /// The container with this ID, or with the only one that begins so.
    pub(crate) fn container(&self, id: &str) -> Result<Arc<Container>> {
        one(&locked(&self.0).containers, ("container", id))
    }
}

fn one<T>(shelf: &BTreeMap<Id, Arc<T>>, (what, id): (&'static str, &str)) -> Result<Arc<T>> {
    let mut found = shelf.iter().filter(|(known, _)| !id.is_empty() && known.as_str().starts_with(id));
    match (found.next(), found.next()) {
        (Some((_, only)), None) => Ok(Arc::clone(only)),
        (None, _) => Err(Error::NotFound { what, id: id.to_owned() }),
        (Some(_), Some(_)) => Err(Error::invalid(what, format!("more than one begins with {id:?}"))),
    }
}

/// That there is none is fine to whoever wants it gone; that it is not said which one is not.
pub(crate) fn if_any<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(Error::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
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
        let one = |id: &str| one(&shelf, ("container", id));
        assert_eq!(*one("ab1").unwrap(), 1);
        assert_eq!(*one(id("ab2").as_str()).unwrap(), 2);
        assert!(if_any(one("")).unwrap().is_none());
        assert!(if_any(one("c")).unwrap().is_none());
        assert!(if_any(one("ab")).is_err(), "nobody can tell which of them is to go");
    }
}
