//! What there is, in memory. The records on disk are what counts; this is them, read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracing::Span;

use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::files;
use crate::id::Id;
use crate::layout::{ContainerPlaces, SandboxPlaces};
use crate::records::{ContainerRecord, SandboxRecord, SandboxStage};

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: Id,
    pub(crate) places: SandboxPlaces,
    /// Held by a call that creates, changes or removes the sandbox or one of its containers. Calls for other sandboxes
    /// do not wait for it.
    pub(crate) gate: tokio::sync::Mutex<()>,
    /// Held while its monitor is started or ended.
    pub(crate) monitor: Mutex<()>,
    /// The pod in the log.
    pub(crate) span: Span,
    record: Mutex<SandboxRecord>,
}

impl Sandbox {
    pub(crate) fn new(record: SandboxRecord, places: SandboxPlaces) -> Self {
        let pod = record.config.metadata.clone().unwrap_or_default();
        Self {
            span: telemetry::log::pod_span(&pod.namespace, &pod.name, &pod.uid),
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
    /// Its state, which calls can wait for.
    pub(crate) state: watch::Sender<ContainerState>,
    /// Held while its state changes and the event is published, so that a client receives the start before the end.
    pub(crate) turns: Mutex<()>,
    record: Mutex<ContainerRecord>,
}

impl Container {
    pub(crate) fn new(record: ContainerRecord, places: ContainerPlaces, state: ContainerState) -> Self {
        let (id, sandbox) = (record.id.clone(), record.sandbox.clone());
        let (state, turns, record) = (watch::Sender::new(state), Mutex::default(), Mutex::new(record));
        Self { id, sandbox, places, state, turns, record }
    }

    pub(crate) fn record(&self) -> ContainerRecord {
        locked(&self.record).clone()
    }

    pub(crate) fn state(&self) -> ContainerState {
        self.state.borrow().clone()
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
        let mut state = self.state.subscribe();
        // The sender is ours, so it cannot be gone.
        let _ = state.wait_for(|state| matches!(state, ContainerState::Exited(_))).await;
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    sandboxes: BTreeMap<Id, Arc<Sandbox>>,
    containers: BTreeMap<Id, Arc<Container>>,
    /// Names in use, with the ID of the sandbox or container.
    names: BTreeMap<String, Id>,
}

impl Store {
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
        one(&locked(&self.0).sandboxes, "sandbox", id)
    }

    /// The container with this ID, or with the only one that begins so.
    pub(crate) fn container(&self, id: &str) -> Result<Arc<Container>> {
        one(&locked(&self.0).containers, "container", id)
    }
}

fn one<T>(shelf: &BTreeMap<Id, Arc<T>>, what: &'static str, id: &str) -> Result<Arc<T>> {
    let mut found = shelf.iter().filter(|(known, _)| !id.is_empty() && known.as_str().starts_with(id));
    match (found.next(), found.next()) {
        (Some((_, only)), None) => Ok(Arc::clone(only)),
        (None, _) => Err(Error::NotFound { what, id: id.to_owned() }),
        (Some(_), Some(_)) => Err(Error::invalid(what, format!("more than one begins with {id:?}"))),
    }
}

/// `None` if it does not exist, for calls that remove it. An ambiguous ID stays an error.
pub(crate) fn if_any<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(Error::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Locks, and ignores poisoning: each change is one step, so a thread that panicked has changed nothing.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_until_it_is_given_back() {
        let store = Store::default();
        let (one, two) = (Id::random().unwrap(), Id::random().unwrap());
        store.reserve("sandbox", "web", &one).unwrap();
        let error = store.reserve("sandbox", "web", &two).unwrap_err();
        assert!(error.to_string().contains(one.as_str()), "{error}");
        store.release(&one);
        store.reserve("sandbox", "web", &two).unwrap();
    }

    #[test]
    fn the_beginning_of_an_id_is_enough_if_only_one_has_it() {
        let id = |text: &str| Id::parse(&format!("{text}{}", "0".repeat(32 - text.len()))).unwrap();
        let shelf: BTreeMap<Id, Arc<u8>> =
            [(id("ab1"), Arc::new(1)), (id("ab2"), Arc::new(2))].into_iter().collect();
        let one = |id: &str| one(&shelf, "container", id);
        assert_eq!(*one("ab1").unwrap(), 1);
        assert_eq!(*one(id("ab2").as_str()).unwrap(), 2);
        assert!(if_any(one("")).unwrap().is_none());
        assert!(if_any(one("c")).unwrap().is_none());
        assert!(if_any(one("ab")).is_err(), "the ID is ambiguous");
    }
}
