use std::fmt;

/// The longest path and the longest part of one, in bytes, as the kernel has them.
const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;

/// Where a file goes in a volume: relative, without `.` and `..`, and away from the names that the
/// writer keeps for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadPath(String);

/// Why a text is no path in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Nothing, or only the volume itself.
    #[error("it names no file")]
    Empty,
    /// It begins at the root.
    #[error("it is absolute")]
    Absolute,
    /// It has a part that leads up.
    #[error("it has a `..` in it")]
    Up,
    /// Its first part is one that the writer uses.
    #[error("names that begin with `..` belong to the volume's writer")]
    Reserved,
    /// It is longer than paths can be.
    #[error("it is longer than 4096 bytes")]
    Long,
    /// A part is longer than names can be.
    #[error("a name in it is longer than 255 bytes")]
    LongName,
    /// No file name can have this byte.
    #[error("it has a NUL byte in it")]
    Nul,
}

impl PayloadPath {
    /// Takes the path with `//` and `/./` cleaned out of it.
    pub fn new(text: &str) -> Result<Self, BadPath> {
        if text.starts_with('/') {
            return Err(BadPath::Absolute);
        }
        if text.len() > PATH_MAX {
            return Err(BadPath::Long);
        }
        if text.contains('\0') {
            return Err(BadPath::Nul);
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(BadPath::Up);
        }
        if parts.iter().any(|part| part.len() > NAME_MAX) {
            return Err(BadPath::LongName);
        }
        // After the cleaning: `./..data` is the writer's own name too.
        match parts.first() {
            None => Err(BadPath::Empty),
            Some(first) if first.starts_with("..") => Err(BadPath::Reserved),
            Some(_) => Ok(Self(parts.join("/"))),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in the volume that leads to it.
    #[must_use]
    pub fn first(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// The directories that it lies in, outermost first.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').filter_map(|(at, _)| self.0.get(..at))
    }
}

impl fmt::Display for PayloadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        for (text, clean) in
            [("a", "a"), ("a//b", "a/b"), ("./a/./b/", "a/b"), ("a..b", "a..b"), (".a", ".a")]
        {
            assert_eq!(PayloadPath::new(text).unwrap().as_str(), clean);
        }
    }

    #[test]
    fn paths_that_leave_or_meet_the_writers_names_are_refused() {
        let long = "x/".repeat(2049);
        let long_name = "y".repeat(256);
        for (text, why) in [
            ("", BadPath::Empty),
            (".", BadPath::Empty),
            ("/etc/passwd", BadPath::Absolute),
            ("..", BadPath::Up),
            ("a/../b", BadPath::Up),
            ("../etc", BadPath::Up),
            ("..data", BadPath::Reserved),
            ("./..data", BadPath::Reserved),
            ("...", BadPath::Reserved),
            ("a\0b", BadPath::Nul),
            (&long, BadPath::Long),
            (&long_name, BadPath::LongName),
        ] {
            assert_eq!(PayloadPath::new(text), Err(why), "{text:?}");
        }
        assert!(PayloadPath::new("a/..b").is_ok());
        assert!(PayloadPath::new(&"y".repeat(255)).is_ok());
    }

    #[test]
    fn a_path_knows_its_directories() {
        let path = PayloadPath::new("a/b/c").unwrap();
        assert_eq!(path.first(), "a");
        assert_eq!(path.parents().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(PayloadPath::new("a").unwrap().parents().count(), 0);
    }
}
