use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::HostId;
use crate::span::HostSpan;

/// The grain of everything that is leased, and the number of IDs at the bottom that stay the host's.
pub const UNIT: u64 = 65_536;

/// The shape of an ID space. The real one is [`Geometry::REAL`]; tests walk small ones to the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    /// Lengths are multiples of this, and this many IDs from 0 up are the host's.
    unit: u64,
    /// Every ID is below this; the ID that means "none" is `limit` - 1.
    limit: u64,
}

impl Geometry {
    pub(crate) const REAL: Self = Self { unit: UNIT, limit: 1 << 32 };

    fn check_length(self, length: u64) -> Result<(), LengthError> {
        if length == 0 || !length.is_multiple_of(self.unit) || length > self.longest() {
            let below = (length / self.unit * self.unit).clamp(self.unit, self.longest());
            let above = length.div_ceil(self.unit).saturating_mul(self.unit).clamp(self.unit, self.longest());
            return Err(LengthError { length, below, above });
        }
        Ok(())
    }

    /// A block of this length still fits, aligned, between the host's IDs and the "none" ID; no
    /// longer one does.
    fn longest(self) -> u64 {
        // Aligned to its length L and not at 0, a block ends at 2L or later: 2L <= limit - 1.
        (self.limit - 1) / 2 / self.unit * self.unit
    }

    fn check_block(self, base: u64, length: u64) -> Result<(), BlockError> {
        self.check_length(length)?;
        if !base.is_multiple_of(length) {
            let below = base / length * length;
            return Err(BlockError::Unaligned { base, length, below, above: below.saturating_add(length) });
        }
        if base < self.unit {
            return Err(BlockError::Host { base, length });
        }
        // The block's end must not pass the "none" ID, nor contain it.
        match base.checked_add(length) {
            Some(end) if end < self.limit => Ok(()),
            _ => Err(BlockError::LastId { base, length }),
        }
    }
}

/// A length that no block can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block cannot have {length} IDs: it takes a multiple of 65536")]
pub struct LengthError {
    /// The requested value.
    pub length: u64,
    /// The nearest valid length that is not longer (or the shortest there is).
    pub below: u64,
    /// The nearest valid length that is not shorter (or the longest there is).
    pub above: u64,
}

/// Why a run of host IDs cannot be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The length itself is impossible.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// It does not start at a multiple of its length.
    #[error(
        "a block of {length} IDs cannot start at {base}: it starts at a multiple of its length, such as {below} or {above}"
    )]
    Unaligned {
        /// Where it would start.
        base: u64,
        /// Its length.
        length: u64,
        /// The multiple below.
        below: u64,
        /// The multiple above.
        above: u64,
    },
    /// It touches the IDs of the host itself.
    #[error("{length} IDs from {base} touch the host's own IDs 0-65535")]
    Host {
        /// Where it would start.
        base: u64,
        /// Its length.
        length: u64,
    },
    /// It holds or passes 2^32-1, which the kernel refuses to map.
    #[error("{length} IDs from {base} reach 4294967295, which the kernel never maps")]
    LastId {
        /// Where it would start.
        base: u64,
        /// Its length.
        length: u64,
    },
}

/// The length of a block: a multiple of 65536 for which an aligned block exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct BlockLength(u32);

impl BlockLength {
    /// 65536, the default of Kubernetes for a pod.
    pub const DEFAULT: Self = Self(65_536);

    /// The number of IDs.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This length doubled `order` times, if such a block exists.
    #[must_use]
    pub fn doubled(self, order: u32) -> Option<Self> {
        let length = u64::from(self.0).checked_shl(order).filter(|l| l >> order == u64::from(self.0))?;
        Self::try_from(length).ok()
    }
}

impl TryFrom<u64> for BlockLength {
    type Error = LengthError;

    fn try_from(length: u64) -> Result<Self, LengthError> {
        Geometry::REAL.check_length(length)?;
        u32::try_from(length).map(Self).map_err(|_| LengthError { length, below: UNIT, above: UNIT })
    }
}

impl From<BlockLength> for u64 {
    fn from(length: BlockLength) -> u64 {
        length.0.into()
    }
}

impl fmt::Display for BlockLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of host IDs that may be leased: a multiple of 65536 long, aligned to its length, clear of
/// the host's first 65536 IDs and of 2^32-1. No other can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawBlock", into = "RawBlock")]
pub struct IdBlock {
    base: HostId,
    last: HostId,
    length: BlockLength,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlock {
    host_id: u64,
    length: u64,
}

impl IdBlock {
    /// The block of `length` IDs from `base`.
    pub fn new(base: u64, length: u64) -> Result<Self, BlockError> {
        Geometry::REAL.check_block(base, length)?;
        let out = BlockError::LastId { base, length };
        Ok(Self {
            base: HostId::try_from(base).map_err(|_| out)?,
            last: HostId::try_from(base + (length - 1)).map_err(|_| out)?,
            length: BlockLength::try_from(length)?,
        })
    }

    /// The first host ID: what the namespace's root is on the host.
    #[must_use]
    pub fn base(self) -> HostId {
        self.base
    }

    /// The last host ID, itself part of the block.
    #[must_use]
    pub fn last(self) -> HostId {
        self.last
    }

    /// How many IDs.
    #[must_use]
    pub fn length(self) -> BlockLength {
        self.length
    }

    /// The same IDs as a plain span.
    #[must_use]
    pub fn span(self) -> HostSpan {
        HostSpan::between_unchecked(self.base, self.last)
    }

    /// Whether the two have an ID in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.base <= other.last && other.base <= self.last
    }
}

impl TryFrom<RawBlock> for IdBlock {
    type Error = BlockError;

    fn try_from(raw: RawBlock) -> Result<Self, BlockError> {
        Self::new(raw.host_id, raw.length)
    }
}

impl From<IdBlock> for RawBlock {
    fn from(block: IdBlock) -> Self {
        Self { host_id: block.base.into(), length: block.length.into() }
    }
}

impl fmt::Display for IdBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.base, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of a block, said once more in the plainest way: as a set of IDs.
    fn naive(g: Geometry, base: u64, length: u64) -> bool {
        let ids: Vec<u64> = (base..base + length).collect();
        !ids.is_empty()
            && length.is_multiple_of(g.unit)
            && base.is_multiple_of(length)
            && ids.iter().all(|&id| id >= g.unit && id < g.limit - 1)
    }

    #[test]
    fn every_block_of_a_small_id_space_is_judged_as_by_its_set_of_ids() {
        for (unit, limit) in [(1, 16), (2, 32), (4, 64), (4, 128), (3, 64), (8, 64)] {
            let g = Geometry { unit, limit };
            for base in 0..limit + 8 {
                for length in 0..limit + 8 {
                    let judged = g.check_block(base, length).is_ok();
                    assert_eq!(judged, naive(g, base, length), "{g:?} {base}+{length}");
                }
            }
        }
    }

    #[test]
    fn a_length_is_valid_just_when_some_block_has_it() {
        for (unit, limit) in [(1, 16), (4, 64), (3, 64), (8, 64)] {
            let g = Geometry { unit, limit };
            for length in 0..2 * limit {
                let some_block = (0..limit).any(|base| naive(g, base, length));
                assert_eq!(g.check_length(length).is_ok(), some_block, "{g:?} {length}");
            }
        }
    }

    #[test]
    fn the_last_block_and_the_hosts_own_cannot_be_built() {
        assert!(matches!(IdBlock::new(0, UNIT), Err(BlockError::Host { .. })));
        assert!(matches!(IdBlock::new((1 << 32) - UNIT, UNIT), Err(BlockError::LastId { .. })));
        let last = IdBlock::new((1 << 32) - 2 * UNIT, UNIT).unwrap();
        assert_eq!(last.last().get(), u32::MAX - 65_536);
        assert!(IdBlock::new(1 << 31, 1 << 31).is_err());
        assert!(IdBlock::new(u64::MAX - 65_535, UNIT).is_err());
    }

    #[test]
    fn an_unaligned_base_names_the_nearest_valid_ones() {
        let e = IdBlock::new(100_000, UNIT).unwrap_err();
        assert_eq!(e, BlockError::Unaligned { base: 100_000, length: UNIT, below: 65_536, above: 131_072 });
    }

    #[test]
    fn a_wrong_length_offers_the_nearest_valid_ones() {
        let e = BlockLength::try_from(100_000).unwrap_err();
        assert_eq!((e.below, e.above), (65_536, 131_072));
        let e = BlockLength::try_from(1).unwrap_err();
        assert_eq!((e.below, e.above), (65_536, 65_536));
        let e = BlockLength::try_from(u64::MAX).unwrap_err();
        assert_eq!((e.below, e.above), (2_147_418_112, 2_147_418_112));
    }

    #[test]
    fn json_cannot_smuggle_in_a_forbidden_block() {
        assert!(serde_json::from_str::<IdBlock>(r#"{"hostId":0,"length":65536}"#).is_err());
        assert!(serde_json::from_str::<IdBlock>(r#"{"hostId":65536,"length":65536}"#).is_ok());
    }
}
