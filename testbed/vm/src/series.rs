use std::fmt;
use std::str::FromStr;

/// A kernel series that Debian 12 and its security archive have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Series {
    /// Debian 12's own.
    V6_1,
    /// Debian 13's, built for Debian 12 by the security team.
    V6_12,
}

impl Series {
    /// All of them, the oldest first.
    pub const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// The package that always depends on the newest kernel of the series. The cloud flavour: a third
    /// of the download, and what the guest needs early is built in or one module away.
    pub(crate) fn meta_package(self) -> &'static str {
        match self {
            Self::V6_1 => "linux-image-cloud-amd64",
            Self::V6_12 => "linux-image-6.12-cloud-amd64",
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        })
    }
}

impl FromStr for Series {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|series| series.to_string() == text)
            .ok_or_else(|| format!("no kernel {text:?} here: there are 6.1 and 6.12"))
    }
}

/// Whether the guest's SELinux only notes what its policy forbids, or forbids it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Notes.
    Permissive,
    /// Forbids.
    Enforcing,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Permissive, Self::Enforcing];

    /// What /sys/fs/selinux/enforce has in this mode.
    pub(crate) fn digit(self) -> &'static str {
        match self {
            Self::Permissive => "0",
            Self::Enforcing => "1",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permissive => "permissive",
            Self::Enforcing => "enforcing",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| format!("no mode {text:?}: there are permissive and enforcing"))
    }
}
