use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A feature gate that we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Gate {
    /// Pods may have a user namespace.
    UserNamespacesSupport,
    /// Pods with the host's network may have one too.
    UserNamespacesHostNetworkSupport,
    /// Volumes of one pod only are labelled by a mount option.
    #[serde(rename = "SELinuxMountReadWriteOncePod")]
    SelinuxMountReadWriteOncePod,
    /// A pod may opt out of it.
    #[serde(rename = "SELinuxChangePolicy")]
    SelinuxChangePolicy,
    /// All persistent volumes are labelled by a mount option.
    #[serde(rename = "SELinuxMount")]
    SelinuxMount,
}

/// A Kubernetes version 1.x of which we know the gates' defaults. As text, `1.37`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion(u16);

/// The name of [`Gate::UserNamespacesSupport`] before Kubernetes 1.28.
pub(crate) const FORMER_NAME: &str = "UserNamespacesStatelessPodsSupport";
/// The first version that has the gate under its present name.
const RENAMED: KubernetesVersion = KubernetesVersion(28);

/// Text that is no Kubernetes version, or one whose defaults are not known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no Kubernetes version that is known here: it takes 1.25 to 1.37")]
pub struct UnknownVersion(pub String);

impl Gate {
    /// All of them, each behind what it needs.
    pub const ALL: [Self; 5] = [
        Self::UserNamespacesSupport,
        Self::UserNamespacesHostNetworkSupport,
        Self::SelinuxMountReadWriteOncePod,
        Self::SelinuxChangePolicy,
        Self::SelinuxMount,
    ];

    /// Its name in Kubernetes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNamespacesSupport => "UserNamespacesSupport",
            Self::UserNamespacesHostNetworkSupport => "UserNamespacesHostNetworkSupport",
            Self::SelinuxMountReadWriteOncePod => "SELinuxMountReadWriteOncePod",
            Self::SelinuxChangePolicy => "SELinuxChangePolicy",
            Self::SelinuxMount => "SELinuxMount",
        }
    }

    /// The gates without which it cannot be on.
    #[must_use]
    pub fn prerequisites(self) -> &'static [Self] {
        match self {
            Self::UserNamespacesSupport | Self::SelinuxMountReadWriteOncePod => &[],
            Self::UserNamespacesHostNetworkSupport => &[Self::UserNamespacesSupport],
            Self::SelinuxChangePolicy => &[Self::SelinuxMountReadWriteOncePod],
            Self::SelinuxMount => &[Self::SelinuxMountReadWriteOncePod, Self::SelinuxChangePolicy],
        }
    }

    /// The first version that has it on by default.
    fn on_since(self) -> Option<KubernetesVersion> {
        match self {
            Self::UserNamespacesSupport | Self::SelinuxChangePolicy => Some(KubernetesVersion(33)),
            Self::UserNamespacesHostNetworkSupport => None,
            Self::SelinuxMountReadWriteOncePod => Some(KubernetesVersion(28)),
            Self::SelinuxMount => Some(KubernetesVersion(37)),
        }
    }

    /// The first version that has it.
    #[must_use]
    pub fn since(self) -> KubernetesVersion {
        match self {
            Self::UserNamespacesSupport | Self::SelinuxMountReadWriteOncePod => KubernetesVersion(25),
            Self::UserNamespacesHostNetworkSupport => KubernetesVersion(35),
            Self::SelinuxChangePolicy => KubernetesVersion(32),
            Self::SelinuxMount => KubernetesVersion(30),
        }
    }

    /// The first version that has it locked on: there it cannot be set off.
    fn locked_since(self) -> Option<KubernetesVersion> {
        match self {
            Self::UserNamespacesSupport | Self::SelinuxMountReadWriteOncePod | Self::SelinuxChangePolicy => {
                Some(KubernetesVersion(36))
            }
            Self::UserNamespacesHostNetworkSupport | Self::SelinuxMount => None,
        }
    }

    /// Whether this version has it locked to its default.
    #[must_use]
    pub fn is_locked_in(self, version: KubernetesVersion) -> bool {
        self.locked_since().is_some_and(|since| version >= since)
    }

    /// Its name in this version; `None` if the version does not have it.
    #[must_use]
    pub fn name_in(self, version: KubernetesVersion) -> Option<&'static str> {
        match self {
            Self::UserNamespacesSupport if version < RENAMED => Some(FORMER_NAME),
            _ => (version >= self.since()).then(|| self.name()),
        }
    }

    /// Whether this version has it on by default.
    #[must_use]
    pub fn default_in(self, version: KubernetesVersion) -> bool {
        self.on_since().is_some_and(|since| version >= since)
    }
}

impl KubernetesVersion {
    /// The oldest that has any of the gates.
    pub const OLDEST: Self = Self(25);
    /// The newest, whose defaults are ours.
    pub const NEWEST: Self = Self(37);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (Self::OLDEST.0..=Self::NEWEST.0).map(Self)
    }
}

impl FromStr for KubernetesVersion {
    type Err = UnknownVersion;

    /// Reads `1.36`, `v1.36` and `v1.36.2`: a patch release changes no default.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let minor = |text: &str| {
            let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.")?;
            rest.split_once('.').map_or(rest, |(minor, _)| minor).parse().ok()
        };
        let known = Self::OLDEST.0..=Self::NEWEST.0;
        minor(text).filter(|m| known.contains(m)).map(Self).ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = UnknownVersion;

    fn try_from(text: String) -> Result<Self, UnknownVersion> {
        text.parse()
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

impl Default for KubernetesVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row a version: which gates are on, in the order of [`Gate::ALL`].
    const DEFAULTS: [(&str, &str); 13] = [
        ("1.25", "-----"),
        ("1.26", "-----"),
        ("1.27", "-----"),
        ("1.28", "--r--"),
        ("1.29", "--r--"),
        ("1.30", "--r--"),
        ("1.31", "--r--"),
        ("1.32", "--r--"),
        ("1.33", "u-rc-"),
        ("1.34", "u-rc-"),
        ("1.35", "u-rc-"),
        ("1.36", "u-rc-"),
        ("1.37", "u-rcm"),
    ];

    #[test]
    fn every_version_has_the_defaults_it_was_released_with() {
        for (version, row) in DEFAULTS {
            let version: KubernetesVersion = version.parse().unwrap();
            let on: Vec<bool> = Gate::ALL.iter().map(|g| g.default_in(version)).collect();
            assert_eq!(on, row.chars().map(|c| c != '-').collect::<Vec<_>>(), "{version}");
        }
        assert_eq!(KubernetesVersion::all().count(), DEFAULTS.len());
    }

    #[test]
    fn no_version_has_a_gate_on_whose_prerequisite_is_off() {
        for version in KubernetesVersion::all() {
            for gate in Gate::ALL.into_iter().filter(|g| g.default_in(version)) {
                assert!(gate.prerequisites().iter().all(|p| p.default_in(version)), "{gate} in {version}");
            }
        }
    }

    /// One row a version: which gates it has (lower case) and has locked on (upper case), in the order of [`Gate::ALL`].
    const KNOWN: [(&str, &str); 13] = [
        ("1.25", "u-r--"),
        ("1.26", "u-r--"),
        ("1.27", "u-r--"),
        ("1.28", "u-r--"),
        ("1.29", "u-r--"),
        ("1.30", "u-r-m"),
        ("1.31", "u-r-m"),
        ("1.32", "u-rcm"),
        ("1.33", "u-rcm"),
        ("1.34", "u-rcm"),
        ("1.35", "uhrcm"),
        ("1.36", "UhRCm"),
        ("1.37", "UhRCm"),
    ];

    #[test]
    fn every_version_knows_and_locks_the_gates_it_was_released_with() {
        for (version, row) in KNOWN {
            let version: KubernetesVersion = version.parse().unwrap();
            for (gate, letter) in Gate::ALL.into_iter().zip(row.chars()) {
                assert_eq!(gate.name_in(version).is_some(), letter != '-', "{gate} in {version}");
                assert_eq!(gate.is_locked_in(version), letter.is_uppercase(), "{gate} in {version}");
                assert!(!gate.is_locked_in(version) || gate.default_in(version), "{gate} in {version}");
            }
        }
        let name = |version: &str| Gate::UserNamespacesSupport.name_in(version.parse().unwrap());
        assert_eq!(name("1.27"), Some("UserNamespacesStatelessPodsSupport"));
        assert_eq!(name("1.28"), Some("UserNamespacesSupport"));
    }

    #[test]
    fn versions_are_read_with_and_without_v_and_patch() {
        for text in ["1.36", "v1.36", "1.36.0", "v1.36.2-rc.1"] {
            assert_eq!(text.parse::<KubernetesVersion>().unwrap().to_string(), "1.36");
        }
        for text in ["", "1", "2.36", "1.24", "1.38", "1.x", "v", "36"] {
            assert!(text.parse::<KubernetesVersion>().is_err(), "{text}");
        }
    }
}
