use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One operation at a time for each sandbox. A caller may stop waiting for an operation, and start another: the first
/// ends before the second starts.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<BTreeSet<String>>,
    given_back: Condvar,
}

/// The lock of a sandbox, until dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    sandbox: &'a str,
}

impl Turns {
    /// Waits for the lock.
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
