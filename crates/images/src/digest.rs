//! SHA-256 digests, and readers that compute them while reading.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;
use std::str::FromStr;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;

/// `sha256:` and 64 lower-case hexadecimal digits: safe as a file name, and the only algorithm that images use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The 64 digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        self.0.get(PREFIX.len()..).unwrap_or_default()
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest with these 64 digits.
    ///
    /// # Errors
    /// If they are not.
    pub fn from_hex(hex: &str) -> Result<Self> {
        format!("{PREFIX}{hex}").parse()
    }

    /// The first digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.hex().get(..12).unwrap_or_default()
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let hex = text.strip_prefix(PREFIX).unwrap_or_default();
        let right = hex.len() == HEX_DIGITS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if right { Ok(Self(text.to_owned())) } else { Err(Error::Digest { text: text.to_owned() }) }
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An unfinished digest.
#[derive(Clone)]
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        let bytes = self.0.finish();
        let hex = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Digest(format!("{PREFIX}{hex}"))
    }
}

/// What a [`Hashing`] reader has read so far.
pub(crate) struct Tally {
    hasher: Hasher,
    length: u64,
}

/// Passes on what it reads, and keeps a tally that outlives it.
pub(crate) struct Hashing<R> {
    inner: R,
    tally: Rc<RefCell<Tally>>,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> (Self, Rc<RefCell<Tally>>) {
        let tally = Rc::new(RefCell::new(Tally { hasher: Hasher::new(), length: 0 }));
        (Self { inner, tally: tally.clone() }, tally)
    }
}

impl Tally {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.length = self.length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.tally.borrow_mut().add(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sixty_four_lower_case_digits() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(empty.parse::<Digest>().unwrap().short(), "e3b0c44298fc");
        for wrong in ["", "sha256:", "sha512:00", &empty.to_uppercase(), &empty[..70], "sha256:../../etc"] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tally_is_of_what_has_passed() {
        let (mut reader, tally) = Hashing::new(&b"abcdef"[..]);
        reader.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(tally.borrow().digest(), Digest::of(b"ab"));
        io::copy(&mut reader, &mut io::sink()).unwrap();
        assert_eq!((tally.borrow().digest(), tally.borrow().length()), (Digest::of(b"abcdef"), 6));
    }
}
