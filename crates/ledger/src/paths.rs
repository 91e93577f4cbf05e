//! Where the files of a ledger lie, and the terms on which they are opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ids::allocator::Allocator;
use ids::pool::IdPool;

use crate::error::LedgerError;
use crate::files;

/// How a process shares the ledger with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// It has the ledger's lock for each change only: for a process that keeps the ledger open.
    #[default]
    Shared,
    /// It has the ledger's lock until it closes the ledger, so that what it does between two changes belongs to them. Others
    /// wait.
    Exclusive,
}

/// Where everything lies.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) db: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) mirror: PathBuf,
    pub(crate) mark: PathBuf,
}

impl Paths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            db: dir.join("ledger.db"),
            lock: dir.join("ledger.lock"),
            mirror: dir.join("copies"),
            mark: dir.join("mark"),
        }
    }

    /// Makes every file its owner's alone: one of an earlier version, or of a copy, may be open to all users.
    pub(crate) fn restrict(&self) -> Result<(), LedgerError> {
        let of_sqlite = ["-wal", "-shm", "-journal"].map(|suffix| files::beside(&self.db, suffix));
        let own = [&self.db, &self.lock, &self.mirror, &self.mark];
        own.into_iter().chain(&of_sqlite).try_for_each(|path| files::restrict(path))
    }
}

/// What a store needs to know besides its files.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) pool: IdPool,
    pub(crate) cap: Option<u32>,
    pub(crate) patience: Duration,
    pub(crate) kubelet_pods: Option<PathBuf>,
    pub(crate) mode: OpenMode,
}

impl Terms {
    pub(crate) fn allocator(&self) -> Allocator {
        Allocator::new(self.pool.clone(), self.cap)
    }
}
