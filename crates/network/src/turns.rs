use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One thing at a time for each sandbox. A caller may stop waiting for what it has begun, and begin another:
/// the first is over before the second begins.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<BTreeSet<String>>,
    given_back: Condvar,
}

/// A sandbox's turn, until dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    sandbox: &'a str,
}

impl Turns {
    /// Waits for it.
    pub(crate) fn take<'a>(&'a self, sandbox: &'a str) -> Turn<'a> {
        let mut taken = self.lock();
        while !taken.insert(sandbox.to_owned()) {
            taken = self.given_back.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { turns: self, sandbox }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(self.sandbox);
        self.turns.given_back.notify_all();
    }
}
