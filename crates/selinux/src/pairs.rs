//! The node's allocator of category pairs, as a runtime sees it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::CategoryPair;

/// Allocates category pairs for the whole node. The runtime asks it only where SELinux is on, from threads that may
/// block.
///
/// What a call changes is durable when it returns, so that a server that is killed loses no pair that it was given.
pub trait CategoryPairs: fmt::Debug + Send + Sync {
    /// A pair that nothing else on the node has, the same one if `user` has one already. `in_use` is what the runtime knows
    /// to be in use besides.
    ///
    /// # Errors
    /// If no pair is free, or the allocator cannot be used.
    fn allocate(&self, user: &PairUser, in_use: Vec<PairInUse>) -> Result<CategoryPair, PairError>;

    /// Keeps a pair that the caller of the runtime names from being allocated. Several users can name one pair.
    ///
    /// # Errors
    /// If the pair is allocated to another user, or the allocator cannot be used.
    fn reserve(&self, user: &PairUser, pair: CategoryPair) -> Result<(), PairError>;

    /// Gives back what `user` has, of which nothing is left; none is fine.
    ///
    /// # Errors
    /// If the allocator cannot be used.
    fn release(&self, user: &PairUser) -> Result<(), PairError>;

    /// At the start of a server: `in_use` is all that it has, and users whose directory is below `dir` beside them are gone.
    /// Returns a sentence for each pair that was to be of one user alone and is of several.
    ///
    /// # Errors
    /// If the allocator cannot be used.
    fn adopt(&self, dir: &Path, in_use: Vec<PairInUse>) -> Result<Vec<String>, PairError>;
}

/// A sandbox or container that has or wants a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairUser {
    /// Its ID.
    pub id: String,
    /// Its directory: while it exists, its pair is in use.
    pub dir: PathBuf,
}

/// A pair that a sandbox or container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairInUse {
    /// The sandbox or container.
    pub user: PairUser,
    /// Its pair.
    pub pair: CategoryPair,
    /// Where the pair came from.
    pub source: PairSource,
}

/// Where a pair came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairSource {
    /// From the allocator.
    Allocated,
    /// From the caller of the runtime.
    Named,
}

/// Why there is no pair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PairError {
    /// What is in the way.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
