use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_core::Metadata;
use tracing_core::span::{Attributes, Id, Record};

use super::field::Collect;
use super::record::{Fields, SpanRecord};

thread_local! {
    /// The spans that this thread has entered, the innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Every span that something still refers to: a handle, or a span below it.
#[derive(Debug, Default)]
pub(super) struct Spans(Mutex<Store>);

#[derive(Debug, Default)]
struct Store {
    last: u64,
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    parent: Option<u64>,
    references: usize,
}

impl Store {
    fn refer(&mut self, id: u64) {
        if let Some(span) = self.open.get_mut(&id) {
            span.references = span.references.saturating_add(1);
        }
    }

    /// Drops a reference; with the last one the span goes, and its reference to its parent.
    fn release(&mut self, id: u64) -> bool {
        let mut next = Some(id);
        let mut is_closed = false;
        while let Some(id) = next.take() {
            let Some(span) = self.open.get_mut(&id) else { break };
            span.references = span.references.saturating_sub(1);
            if span.references == 0 {
                next = self.open.remove(&id).and_then(|span| span.parent);
                is_closed = true;
            }
        }
        is_closed
    }
}

impl Spans {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, attributes: &Attributes<'_>) -> Id {
        let mut collect = Collect::default();
        attributes.record(&mut collect);
        let parent = match attributes.parent() {
            Some(id) => Some(id.into_u64()),
            None if attributes.is_contextual() => current(),
            None => None,
        };
        let mut store = self.store();
        store.last = store.last.wrapping_add(1).max(1);
        let id = store.last;
        let parent = parent.filter(|parent| store.open.contains_key(parent));
        if let Some(parent) = parent {
            store.refer(parent);
        }
        let open = Open { metadata: attributes.metadata(), fields: collect.fields, parent, references: 1 };
        store.open.insert(id, open);
        Id::from_u64(id)
    }

    pub(super) fn record(&self, id: &Id, values: &Record<'_>) {
        // Values are formatted by code of others, which may emit events: not under the lock.
        let mut collect = Collect::default();
        values.record(&mut collect);
        if let Some(span) = self.store().open.get_mut(&id.into_u64()) {
            collect.fields.iter().for_each(|(name, value)| span.fields.set(name, value.clone()));
        }
    }

    pub(super) fn refer(&self, id: &Id) {
        self.store().refer(id.into_u64());
    }

    /// Whether that was the last reference.
    pub(super) fn release(&self, id: &Id) -> bool {
        self.store().release(id.into_u64())
    }

    pub(super) fn metadata(&self, id: &Id) -> Option<&'static Metadata<'static>> {
        self.store().open.get(&id.into_u64()).map(|span| span.metadata)
    }

    /// This span and those around it, the innermost first.
    pub(super) fn around(&self, innermost: Option<u64>) -> Vec<SpanRecord> {
        let store = self.store();
        let mut found = Vec::new();
        let mut next = innermost;
        while let Some(span) = next.and_then(|id| store.open.get(&id)) {
            found.push(SpanRecord { name: span.metadata.name(), fields: span.fields.clone() });
            next = span.parent;
        }
        found
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.store().open.len()
    }
}

/// The span that this thread is in. While a thread ends it is in none.
pub(super) fn current() -> Option<u64> {
    ENTERED.try_with(|entered| entered.borrow().last().copied()).ok().flatten()
}

pub(super) fn enter(id: &Id) {
    let _ = ENTERED.try_with(|entered| entered.borrow_mut().push(id.into_u64()));
}

/// Spans may be left in another order than they were entered in.
pub(super) fn exit(id: &Id) {
    let _ = ENTERED.try_with(|entered| {
        let mut entered = entered.borrow_mut();
        if let Some(at) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
            entered.remove(at);
        }
    });
}
