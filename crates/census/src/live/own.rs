//! Our own descriptors. A scan opens namespaces for a moment; another scan by the same process that reads the
//! process's descriptors just then would count them as users of a block.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static OPEN: RwLock<()> = RwLock::new(());

/// Held for as long as namespaces are open for a look.
pub(super) fn looking() -> RwLockReadGuard<'static, ()> {
    OPEN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Held while our own descriptors are looked through: none is open for a look then.
pub(super) fn alone() -> RwLockWriteGuard<'static, ()> {
    OPEN.write().unwrap_or_else(PoisonError::into_inner)
}
