use std::time::Duration;

/// A point in time, in milliseconds from an epoch that the caller chose once (the Unix epoch, for example).
///
/// A clock that was set back makes durations zero, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The moment so many milliseconds from the beginning.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds from the beginning.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment that follows after `span`.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
