use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The longest path that the kernel takes.
const LONGEST: usize = 4096;

/// A path below a volume's root: relative, without `..`, and not the root itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SubPath(PathBuf);

/// A path that is no sub path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a valid subPath: {why}")]
pub struct BadSubPath {
    /// The path.
    pub path: String,
    /// Why it is invalid.
    pub why: &'static str,
}

impl SubPath {
    /// Checks the path. `None` where it means the whole volume: empty, or nothing but dots and slashes.
    pub fn new(path: &str) -> Result<Option<Self>, BadSubPath> {
        let bad = |why| Err(BadSubPath { path: path.to_owned(), why });
        if path.starts_with('/') {
            return bad("it must be relative");
        }
        if path.contains('\0') {
            return bad("it has a NUL in it");
        }
        if path.len() >= LONGEST {
            return bad("it is longer than 4095 bytes");
        }
        let mut clean = PathBuf::new();
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) if name.len() <= 255 => clean.push(name),
                Component::Normal(_) => return bad("a part of it is longer than 255 bytes"),
                Component::CurDir => {}
                _ => return bad("it must not have \"..\" in it"),
            }
        }
        Ok((!clean.as_os_str().is_empty()).then_some(Self(clean)))
    }

    /// The path, clean: no empty or `.` part.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<String> for SubPath {
    type Error = BadSubPath;

    fn try_from(path: String) -> Result<Self, BadSubPath> {
        Self::new(&path)?.ok_or(BadSubPath { path, why: "it is the whole volume" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_is_relative_and_stays_below() {
        for path in ["/etc", "..", "a/..", "a/../b", "../a", "a\0b", &"a/".repeat(2048), &"a".repeat(256)] {
            assert!(SubPath::new(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_sub_path_is_cleaned() {
        let clean = |path| SubPath::new(path).unwrap().map(|p| p.as_path().display().to_string());
        assert_eq!(clean("a//b/./c/").as_deref(), Some("a/b/c"));
        assert_eq!(clean("..data").as_deref(), Some("..data"));
        assert_eq!(clean(""), None);
        assert_eq!(clean("./."), None);
    }
}
