use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use types::Quantity;

/// What eviction observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EvictionSignal {
    /// Memory of the node that is free.
    #[serde(rename = "memory.available")]
    MemoryAvailable,
    /// Memory for pods that is free.
    #[serde(rename = "allocatableMemory.available")]
    AllocatableMemoryAvailable,
    /// Free space on the filesystem of the kubelet's directory.
    #[serde(rename = "nodefs.available")]
    NodeFsAvailable,
    /// Free inodes there.
    #[serde(rename = "nodefs.inodesFree")]
    NodeFsInodesFree,
    /// Free space on the filesystem of images.
    #[serde(rename = "imagefs.available")]
    ImageFsAvailable,
    /// Free inodes there.
    #[serde(rename = "imagefs.inodesFree")]
    ImageFsInodesFree,
    /// Free space on the filesystem of the containers' writable layers.
    #[serde(rename = "containerfs.available")]
    ContainerFsAvailable,
    /// Free inodes there.
    #[serde(rename = "containerfs.inodesFree")]
    ContainerFsInodesFree,
    /// Process IDs that are free.
    #[serde(rename = "pid.available")]
    PidAvailable,
}

impl EvictionSignal {
    /// The names of all signals.
    pub const NAMES: [&'static str; 9] = [
        "memory.available",
        "allocatableMemory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "containerfs.available",
        "containerfs.inodesFree",
        "pid.available",
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::ContainerFsAvailable => "containerfs.available",
            Self::ContainerFsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }
}

/// How much of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Threshold {
    /// So many percent of the capacity.
    Percentage(f64),
    /// So much.
    Quantity(Quantity),
}

/// Text that is no threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a quantity such as 100Mi nor a percentage from 0% to 100%")]
pub struct NotAThreshold(pub String);

impl Threshold {
    /// Whether it turns its signal off: 0% and 100%.
    #[must_use]
    pub fn is_disabled(self) -> bool {
        matches!(self, Self::Percentage(percent) if percent <= 0.0 || percent >= 100.0)
    }

    /// Whether it is nothing at all.
    #[must_use]
    pub fn is_zero(self) -> bool {
        match self {
            Self::Percentage(percent) => percent <= 0.0,
            Self::Quantity(quantity) => quantity <= Quantity::ZERO,
        }
    }
}

impl FromStr for Threshold {
    type Err = NotAThreshold;

    fn from_str(text: &str) -> Result<Self, NotAThreshold> {
        let wrong = || NotAThreshold(text.to_owned());
        match text.strip_suffix('%') {
            Some(number) => {
                let percent: f64 = number.parse().map_err(|_| wrong())?;
                if (0.0..=100.0).contains(&percent) { Ok(Self::Percentage(percent)) } else { Err(wrong()) }
            }
            None => {
                let quantity = text.parse().map_err(|_| wrong())?;
                if quantity >= Quantity::ZERO { Ok(Self::Quantity(quantity)) } else { Err(wrong()) }
            }
        }
    }
}

impl TryFrom<String> for Threshold {
    type Error = NotAThreshold;

    fn try_from(text: String) -> Result<Self, NotAThreshold> {
        text.parse()
    }
}

impl From<Threshold> for String {
    fn from(threshold: Threshold) -> Self {
        threshold.to_string()
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentage(percent) => write!(f, "{percent}%"),
            Self::Quantity(quantity) => quantity.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_the_name_that_it_is_configured_by() {
        for name in EvictionSignal::NAMES {
            let signal: EvictionSignal = serde_json::from_value(name.into()).unwrap();
            assert_eq!(signal.name(), name);
        }
    }
}
