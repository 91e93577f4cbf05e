use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{HostId, ID_COUNT};

/// Any run of host IDs, at least one long, none of them 2^32-1: IDs that are in use or claimed on the host.
///
/// Not every span may be leased: see [`crate::IdBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawSpan", into = "RawSpan")]
pub struct HostSpan {
    first: u32,
    /// Inclusive and never below `first`.
    last: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpan {
    host_id: u64,
    length: u64,
}

/// Why a run of IDs cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// The run has no ID at all.
    #[error("a range of 0 IDs starting at {first}")]
    Empty {
        /// Where it would start.
        first: u64,
    },
    /// The run passes the last ID there is.
    #[error("{length} IDs from {first} pass 4294967294, the last ID there is")]
    PastTheEnd {
        /// Where it starts.
        first: u64,
        /// How long it claims to be.
        length: u64,
    },
}

impl HostSpan {
    /// The run of `length` IDs from `first`.
    pub fn new(first: u64, length: u64) -> Result<Self, SpanError> {
        let past = SpanError::PastTheEnd { first, length };
        let Some(more) = length.checked_sub(1) else {
            return Err(SpanError::Empty { first });
        };
        let last = first.checked_add(more).filter(|&l| l < ID_COUNT).ok_or(past)?;
        match (u32::try_from(first), u32::try_from(last)) {
            (Ok(first), Ok(last)) => Ok(Self { first, last }),
            _ => Err(past),
        }
    }

    /// The run from `first` to `last`, both included; `None` if `last` lies before `first`.
    #[must_use]
    pub fn between(first: HostId, last: HostId) -> Option<Self> {
        (first <= last).then_some(Self { first: first.get(), last: last.get() })
    }

    /// For callers whose own invariant is `first <= last`.
    pub(crate) fn between_unchecked(first: HostId, last: HostId) -> Self {
        debug_assert!(first <= last);
        Self { first: first.get(), last: last.get() }
    }

    /// The run of this one ID.
    #[must_use]
    pub fn single(id: HostId) -> Self {
        Self { first: id.get(), last: id.get() }
    }

    /// The lowest ID.
    #[must_use]
    pub fn first(self) -> u32 {
        self.first
    }

    /// The highest ID, itself part of the run.
    #[must_use]
    pub fn last(self) -> u32 {
        self.last
    }

    /// How many IDs.
    #[must_use]
    pub fn length(self) -> u64 {
        u64::from(self.last) - u64::from(self.first) + 1
    }

    /// The ID just behind the last.
    #[must_use]
    pub fn end(self) -> u64 {
        u64::from(self.last) + 1
    }

    /// Whether `id` is one of the run.
    #[must_use]
    pub fn contains(self, id: HostId) -> bool {
        (self.first..=self.last).contains(&id.get())
    }

    /// Whether the two have an ID in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether all of `other` lies inside.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// What the two have in common.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        self.overlaps(other)
            .then(|| Self { first: self.first.max(other.first), last: self.last.min(other.last) })
    }
}

impl TryFrom<RawSpan> for HostSpan {
    type Error = SpanError;

    fn try_from(raw: RawSpan) -> Result<Self, SpanError> {
        Self::new(raw.host_id, raw.length)
    }
}

impl From<HostSpan> for RawSpan {
    fn from(span: HostSpan) -> Self {
        Self { host_id: span.first.into(), length: span.length() }
    }
}

impl fmt::Display for HostSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_never_holds_the_kernels_no_id() {
        assert!(HostSpan::new(0, ID_COUNT).is_ok());
        assert!(HostSpan::new(0, ID_COUNT + 1).is_err());
        assert!(HostSpan::new(ID_COUNT, 1).is_err());
        assert!(HostSpan::new(u64::MAX, 2).is_err());
        assert!(HostSpan::new(5, 0).is_err());
    }
}
