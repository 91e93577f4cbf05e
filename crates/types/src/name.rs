//! Names that become names of directories.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name of a directory that the kernel takes.
const LONGEST: usize = 255;

/// A name that cannot name a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be the name of {what}: {why}")]
pub struct BadName {
    /// What was to be named.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// Why it is invalid.
    pub why: &'static str,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        /// In quotes, as messages have it.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl $name {
            /// Checks the name.
            ///
            /// # Errors
            /// If it cannot be one component of a path that leads nowhere else.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, BadName> {
                let name = name.into();
                match fault(&name) {
                    None => Ok(Self(name)),
                    Some(why) => Err(BadName { what: $what, name: name.to_string(), why }),
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(name: String) -> Result<Self, BadName> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// A pod's UID: from the API server, or the hash that a static pod gets. A clone costs no copy.
    PodUid, "a pod's directory"
}
name_type! {
    /// A volume's name, unique in its pod.
    VolumeName, "a volume"
}
name_type! {
    /// A container's name, unique in its pod.
    ContainerName, "a container"
}

/// What keeps a name from being one component of a path that leads nowhere else.
fn fault(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > LONGEST {
        Some("it is longer than 255 bytes")
    } else if name.starts_with('.') {
        Some("it starts with a dot")
    } else if !name.chars().all(allowed) {
        Some("it may have letters, digits, '-', '_' and '.' only")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_directory_are_refused() {
        for name in ["", ".", "..", "a/b", "/", "..data", "a\0b", "ä", &"x".repeat(256)] {
            assert!(VolumeName::new(name).is_err(), "{name:?}");
        }
        for name in ["data", "kube-api-access-x7k2p", "0d3a", "8f1c9e0a-1b2c-4d5e-8f90-a1b2c3d4e5f6"] {
            assert!(PodUid::new(name).is_ok(), "{name:?}");
        }
    }
}
