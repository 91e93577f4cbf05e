use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

/// The name of a sandbox or container: 32 hex digits, so that the paths of sockets below it stay short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Id(String);

const LENGTH: usize = 32;

impl Id {
    /// A new random ID.
    ///
    /// # Errors
    /// If the kernel's random numbers cannot be read.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; LENGTH / 2];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(hex(&bytes)))
    }

    /// This text, if it is one.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == LENGTH && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// As text.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no ID of 32 hex digits"))
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What [`hex`] made text of.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_32_lower_case_hex_digits_are_an_id() {
        let id = Id::random().unwrap();
        assert_eq!(Id::parse(id.as_str()), Some(id.clone()));
        assert_ne!(id, Id::random().unwrap());
        for wrong in
            ["", "abc", "../../../../../../../../../../../", &id.as_str().to_uppercase().replace('0', "A")]
        {
            assert_eq!(Id::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_come_back_from_their_digits() {
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        assert_eq!(unhex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
    }
}
