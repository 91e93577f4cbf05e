//! Keys of rows.

/// The key of a row in its slab: it stays the row's until the row is removed, and is then given out again.
pub(crate) type Index = usize;
