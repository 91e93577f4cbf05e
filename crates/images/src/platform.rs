use std::fmt;

use serde::{Deserialize, Serialize};

/// The platform of an image, in Go's names, which images use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// `v7`, `v8`.
    #[serde(default, deserialize_with = "crate::json::null_is_default")]
    pub variant: String,
}

impl Platform {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "x86" => ("386", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            "loongarch64" => ("loong64", ""),
            other => (other, ""),
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
    }

    /// How well `offered` fits this machine: not at all, or the higher the better.
    pub(crate) fn rank(&self, offered: &Self) -> Option<u8> {
        if (&self.os, &self.architecture) != (&offered.os, &offered.architecture) {
            return None;
        }
        match (self.variant.as_str(), offered.variant.as_str()) {
            (own, other) if own == other => Some(3),
            (_, "") => Some(2),
            // Older ones of the same family run on newer ones; amd64/v2 may not run on every amd64.
            ("v7", "v6" | "v5") => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(architecture: &str, variant: &str) -> Platform {
        Platform { os: "linux".into(), architecture: architecture.into(), variant: variant.into() }
    }

    #[test]
    fn the_nearest_variant_is_taken_and_no_newer_one() {
        let arm = platform("arm", "v7");
        assert!(arm.rank(&platform("arm", "v7")) > arm.rank(&platform("arm", "v6")));
        assert_eq!(arm.rank(&platform("arm64", "v8")), None);
        assert_eq!(platform("amd64", "").rank(&platform("amd64", "v3")), None);
        assert_eq!(platform("arm64", "v8").rank(&platform("arm64", "")), Some(2));
        let windows = Platform { os: "windows".into(), ..platform("amd64", "") };
        assert_eq!(platform("amd64", "").rank(&windows), None);
    }
}
