use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ownership::walk::Facts;
use crate::payload::Mode;

/// Which file, beyond its name. A number is used again after its file is gone; the time it was made is
/// not. (The device is left out: its number may be another one after a restart.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    pub(crate) ino: u64,
    pub(crate) born: Option<i64>,
}

impl Identity {
    pub(crate) fn of(facts: &Facts) -> Self {
        Self { ino: facts.ino, born: facts.born }
    }
}

/// One file that is to be shifted, as it was before: a line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: Mode,
    /// Raw, as the kernel stores it.
    pub(crate) capability: Option<Vec<u8>>,
    /// Below the tree's root; empty for the root.
    pub(crate) path: PathBuf,
}

impl Entry {
    pub(crate) fn line(&self) -> String {
        let Self { identity: Identity { ino, born }, uid, gid, mode, capability, path } = self;
        let born = born.map_or_else(|| "-".to_owned(), |b| b.to_string());
        let capability = capability.as_ref().map_or_else(|| "-".to_owned(), |raw| hex(raw));
        format!("{ino} {born} {uid} {gid} {mode} {capability} {}", escaped(path))
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let ino = word()?.parse().ok()?;
        let born = optional(word()?, |text| text.parse().ok())?;
        let (uid, gid) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let mode = Mode::new(u32::from_str_radix(word()?, 8).ok()?).ok()?;
        let capability = optional(word()?, from_hex)?;
        let path = unescaped(word()?)?;
        let entry = Self { identity: Identity { ino, born }, uid, gid, mode, capability, path };
        word().is_none().then_some(entry)
    }
}

fn optional<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { parse(text).map(Some) }
}

fn hex(raw: &[u8]) -> String {
    raw.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2))
        .collect()
}

/// The root is `.`, which no file can be named; bytes that would break a line are `%XX`.
fn escaped(path: &Path) -> String {
    if path.as_os_str().is_empty() {
        return ".".to_owned();
    }
    let byte = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'%' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    path.as_os_str().as_bytes().iter().map(byte).collect()
}

fn unescaped(text: &str) -> Option<PathBuf> {
    if text == "." {
        return Some(PathBuf::new());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => from_hex(str::from_utf8(&[rest.next()?, rest.next()?]).ok()?)?.first().copied()?,
            byte => byte,
        });
    }
    (!bytes.is_empty()).then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_as_drawn() {
        let entry = Entry {
            identity: Identity { ino: 17, born: Some(1_700_000_000_000_000_001) },
            uid: 1000,
            gid: 0,
            mode: Mode::new(0o4755).unwrap(),
            capability: Some(vec![1, 0, 0, 2]),
            path: PathBuf::from("a dir/50%\n"),
        };
        let line = "17 1700000000000000001 1000 0 4755 01000002 a%20dir/50%25%0A";
        assert_eq!(entry.line(), line);
        assert_eq!(Entry::parse(line), Some(entry));
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        for line in [
            "",
            "17",
            "17 - 0 0 0644 - ",
            "17 - 0 0 0644 -",
            "17 - 0 0 99 - a",
            "17 - 0 0 10000 - a",
            "17 - 0 0 0644 0 a",
            "17 - 0 0 0644 - a b",
            "17 - 0 0 0644 - a%",
            "17 - 0 0 0644 - a%zz",
            "-1 - 0 0 0644 - a",
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn every_entry_comes_back_from_its_line(
            ino: u64, born: Option<i64>, uid: u32, gid: u32, mode in 0u32..0o10000,
            capability in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..24)),
            path in proptest::collection::vec(1u8.., 0..40),
        ) {
            prop_assume!(path != b".");
            let path = PathBuf::from(OsString::from_vec(path));
            let mode = Mode::new(mode).unwrap();
            let entry = Entry { identity: Identity { ino, born }, uid, gid, mode, capability, path };
            let line = entry.line();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Entry::parse(&line), Some(entry));
        }
    }
}
