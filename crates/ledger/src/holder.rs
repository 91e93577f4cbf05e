use std::fmt;

use serde::{Deserialize, Serialize};

/// The name that a lease is for: a pod's UID, a sandbox of the wrapper, or any name that `wardlet ids lease` is given.
///
/// Names are 1 to 253 letters, digits and `. _ : / @ -`, so that each can be a word on a command line
/// and a line in a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Holder(String);

/// A name that no holder can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be the name of a holder: {why}")]
pub struct BadHolder {
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Holder {
    /// Checks the name. Fails if it is empty, longer than 253 characters, or has other characters.
    pub fn new(name: impl Into<String>) -> Result<Self, BadHolder> {
        let name = name.into();
        let bad = |c: char| !(c.is_ascii_alphanumeric() || "._:/@-".contains(c));
        let why = if name.is_empty() {
            "it is empty"
        } else if name.len() > 253 {
            "it is longer than 253 characters"
        } else if name.contains(bad) {
            "only letters, digits and . _ : / @ - are allowed"
        } else {
            return Ok(Self(name));
        };
        Err(BadHolder { name, why })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Holder {
    type Error = BadHolder;

    fn try_from(name: String) -> Result<Self, BadHolder> {
        Self::new(name)
    }
}

impl From<Holder> for String {
    fn from(holder: Holder) -> String {
        holder.0
    }
}

impl std::str::FromStr for Holder {
    type Err = BadHolder;

    fn from_str(name: &str) -> Result<Self, BadHolder> {
        Self::new(name)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
