use std::fmt;

/// A file's permissions with the bits for setuid, setgid and sticky: twelve bits and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u32);

/// A number with bits in it that no file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0:#o} is not a file mode: modes go from 0 to 0o7777")]
pub struct ModeOutOfRange(pub u32);

impl Mode {
    /// What files of a volume have unless the pod says otherwise.
    pub const DEFAULT: Self = Self(0o644);
    /// What a token has that belongs to one user or group.
    pub const PRIVATE: Self = Self(0o600);
    /// What directories of a volume have.
    pub const DIRECTORY: Self = Self(0o755);

    /// These bits, exactly.
    pub fn new(bits: u32) -> Result<Self, ModeOutOfRange> {
        if bits <= 0o7777 { Ok(Self(bits)) } else { Err(ModeOutOfRange(bits)) }
    }

    /// The bits, for the kernel and for print.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// With the bits of `other` too.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Only the bits that both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// For bits that are known to be few enough.
    pub(crate) const fn cut(bits: u32) -> Self {
        Self(bits & 0o7777)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_bits_are_taken_exactly_and_a_thirteenth_never() {
        for bits in [0, 0o400, 0o644, 0o777, 0o4755, 0o7777] {
            assert_eq!(Mode::new(bits).unwrap().bits(), bits);
        }
        for bits in [0o10000, 0o100_644, u32::MAX] {
            assert_eq!(Mode::new(bits), Err(ModeOutOfRange(bits)));
        }
        assert_eq!(Mode::new(0o44).unwrap().to_string(), "0044");
    }
}
