//! The high-water mark: no ID above it was ever leased, whatever else is lost.
//!
//! It is raised in strides and is on disk before a lease beyond the old mark is given.

use std::path::{Path, PathBuf};

use ids::allocator::Blocks;
use serde::{Deserialize, Serialize};

use crate::error::LedgerError;

/// How far a raised mark runs ahead: 64 blocks of 65536.
const STRIDE: u32 = 64 * 65_536;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The highest user ID that may have been leased.
    pub(crate) uid: u32,
    /// The highest group ID that may have been leased.
    pub(crate) gid: u32,
}

#[derive(Debug)]
pub(crate) struct MarkFile {
    path: PathBuf,
    known: Option<Mark>,
}

impl MarkFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: None }
    }

    /// The mark on disk; `None` if it is missing or damaged.
    pub(crate) fn read(&self) -> Option<Mark> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let (crc, json) = text.trim_end().split_once(' ')?;
        let crc = u32::from_str_radix(crc, 16).ok()?;
        (crc32fast::hash(json.as_bytes()) == crc).then(|| serde_json::from_str(json).ok())?
    }

    /// Raises the mark to cover `leased`. The caller must do so before it returns these leases. A lost mark is computed
    /// from `all` recorded blocks, as it would otherwise be too low for earlier leases.
    pub(crate) fn cover(
        &mut self,
        leased: impl Iterator<Item = Blocks>,
        all: impl Iterator<Item = Blocks>,
    ) -> Result<(), LedgerError> {
        let need = highest(leased);
        if self.known.is_some_and(|m| need.uid <= m.uid && need.gid <= m.gid) {
            return Ok(());
        }
        // Another process may have raised it further than we know: never lower it.
        let (now, need) = match self.read() {
            Some(now) => (now, need),
            None => (Mark::default(), highest(all)),
        };
        let raise = |have: u32, need: u32| if need > have { need.saturating_add(STRIDE) } else { have };
        let mark = Mark { uid: raise(now.uid, need.uid), gid: raise(now.gid, need.gid) };
        if mark != now {
            let json = serde_json::to_string(&mark).unwrap_or_default();
            let text = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
            durable::write(&self.path, text.as_bytes())?;
        }
        self.known = Some(mark);
        Ok(())
    }
}

fn highest(blocks: impl Iterator<Item = Blocks>) -> Mark {
    blocks.fold(Mark::default(), |m, b| Mark {
        uid: m.uid.max(b.uids.last().get()),
        gid: m.gid.max(b.gids.last().get()),
    })
}
