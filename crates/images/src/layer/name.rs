use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::fault::Fault;
use crate::limits::AbsoluteNames;

/// The kernel's limits of paths and names.
const PATH_BYTES: usize = 4095;
const NAME_BYTES: usize = 255;

const WHITEOUT: &[u8] = b".wh.";
const META: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A path inside an image: names only, no `..`, no root. Empty, it is the image's root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryPath(Vec<OsString>);

impl EntryPath {
    /// The path that an archive's bytes stand for.
    ///
    /// # Errors
    /// If it would lead out of the image, or no file can have it.
    pub fn new(bytes: &[u8], absolute: AbsoluteNames) -> Result<Self, Fault> {
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(Fault::Name);
        }
        if bytes.starts_with(b"/") && absolute == AbsoluteNames::Refused {
            return Err(Fault::Absolute);
        }
        let mut names = Vec::new();
        for name in bytes.split(|&byte| byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(Fault::Climbs),
                name if name.len() > NAME_BYTES => return Err(Fault::TooLong),
                name => names.push(OsStr::from_bytes(name).to_owned()),
            }
        }
        if bytes.len() > PATH_BYTES {
            return Err(Fault::TooLong);
        }
        Ok(Self(names))
    }

    /// The components, outermost first.
    #[must_use]
    pub fn names(&self) -> &[OsString] {
        &self.0
    }

    /// The path, relative to the image's root.
    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        self.0.iter().collect()
    }

    /// Everything but the last name, and the last name; nothing for the root.
    #[must_use]
    pub fn split(&self) -> Option<(&[OsString], &OsStr)> {
        self.0.split_last().map(|(name, parents)| (parents, name.as_os_str()))
    }

    fn with_name(mut self, name: &[u8]) -> Self {
        self.0.pop();
        self.0.push(OsStr::from_bytes(name).to_owned());
        self
    }

    fn parent(mut self) -> Self {
        self.0.pop();
        self
    }
}

/// The meaning of an entry's name in a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A file.
    Plain(EntryPath),
    /// A whiteout of this path.
    Whiteout(EntryPath),
    /// An opaque marker of this directory.
    Opaque(EntryPath),
    /// Metadata of aufs: ignored.
    Meta,
}

impl Meaning {
    pub(crate) fn of(path: EntryPath) -> Result<Self, Fault> {
        let in_meta = |name: &OsString| name.as_bytes().starts_with(META) && name.as_bytes() != OPAQUE;
        if path.names().iter().any(in_meta) {
            return Ok(Self::Meta);
        }
        // Files below a whiteout are nonsense; as parents they would hide what they say is gone.
        let Some((parents, last)) = path.split() else { return Ok(Self::Plain(path)) };
        if parents.iter().any(|name| name.as_bytes().starts_with(WHITEOUT)) {
            return Err(Fault::Whiteout);
        }
        let last = last.as_bytes().to_owned();
        if last == OPAQUE {
            return Ok(Self::Opaque(path.parent()));
        }
        match last.strip_prefix(WHITEOUT) {
            None => Ok(Self::Plain(path)),
            Some(b"" | b"." | b"..") => Err(Fault::Whiteout),
            Some(hidden) => Ok(Self::Whiteout(path.with_name(hidden))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Result<EntryPath, Fault> {
        EntryPath::new(text.as_bytes(), AbsoluteNames::Refused)
    }

    fn meaning(text: &str) -> Result<Meaning, Fault> {
        Meaning::of(path(text)?)
    }

    #[test]
    fn a_name_stays_inside_or_is_refused() {
        assert_eq!(path("./usr//lib/").unwrap().to_path(), PathBuf::from("usr/lib"));
        assert_eq!(path("./").unwrap(), EntryPath::default());
        assert_eq!(path("/etc/passwd"), Err(Fault::Absolute));
        for climbing in ["..", "../x", "a/../b", "a/.."] {
            assert_eq!(path(climbing), Err(Fault::Climbs), "{climbing}");
        }
        for unnameable in ["", "a\0b"] {
            assert_eq!(path(unnameable), Err(Fault::Name));
        }
        assert_eq!(path(&"x".repeat(256)), Err(Fault::TooLong));
        assert_eq!(path(&"x/".repeat(2050)), Err(Fault::TooLong));
    }

    #[test]
    fn an_absolute_name_can_be_read_from_the_images_root() {
        let path = EntryPath::new(b"/ko-app/server", AbsoluteNames::InImage).unwrap();
        assert_eq!(path.to_path(), PathBuf::from("ko-app/server"));
        assert_eq!(EntryPath::new(b"/../x", AbsoluteNames::InImage), Err(Fault::Climbs));
    }

    #[test]
    fn whiteouts_name_a_file_beside_them() {
        assert_eq!(meaning("a/.wh.b"), Ok(Meaning::Whiteout(path("a/b").unwrap())));
        assert_eq!(meaning("a/.wh..wh..opq"), Ok(Meaning::Opaque(path("a").unwrap())));
        assert_eq!(meaning(".wh..wh.plnk/1.2"), Ok(Meaning::Meta));
        for nothing in [".wh.", "a/.wh..", "a/.wh...", ".wh.a/b"] {
            assert_eq!(meaning(nothing), Err(Fault::Whiteout), "{nothing}");
        }
    }
}
