//! What directory trees take of the disk, counted while containers write to them.
//!
//! - `walk`: one walk, which can be interrupted and resumed. A process that writes to the tree cannot redirect it.
//! - [`DiskUsageCache`]: trees by their paths, each walked again only after a rest.
//! - [`DiskUsageMeter`]: a thread of its own that walks the trees of one group after the other, each for a short time.

mod cache;
mod meter;
mod tree;
mod walk;

pub use cache::{DiskUsageCache, Round};
pub use meter::DiskUsageMeter;

/// What a tree takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes on the disk, as allocated.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
    /// Whether it is a lower bound: a tree that is too deep, or whose directories are moved all the time, is not counted
    /// completely.
    pub at_least: bool,
}

impl DiskUsage {
    /// The two together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
            at_least: self.at_least || other.at_least,
        }
    }

    /// Whether it exceeds a limit of bytes; 0 is no limit. A lower bound exceeds every limit, or a pod could hide what it
    /// has written.
    #[must_use]
    pub fn exceeds(self, limit: u64) -> bool {
        limit > 0 && (self.at_least || self.bytes > limit)
    }

    /// The larger of each.
    fn at_least(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            inodes: self.inodes.max(other.inodes),
            at_least: self.at_least || other.at_least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_exceeds_every_limit() {
        let counted = DiskUsage { bytes: 10, inodes: 1, at_least: false };
        assert!(counted.exceeds(9) && !counted.exceeds(10) && !counted.exceeds(0));
        let deep = DiskUsage { at_least: true, ..counted };
        assert!(deep.exceeds(1 << 40) && !deep.exceeds(0) && counted.and(deep).at_least);
    }
}
