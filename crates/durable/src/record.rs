//! JSON files, and records: JSON files with a version number.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Versions};
use crate::file::{read, write};

/// No record is nearly as large. A file that is larger is refused before it fills the memory.
pub const LARGEST: u64 = 16 << 20;

/// What is kept in a file whose JSON object has a field `version`.
pub trait Record: Serialize + DeserializeOwned {
    /// The version that is written, and the newest that is read.
    const VERSION: u32;
    /// The oldest version that is read.
    const OLDEST: u32 = Self::VERSION;
}

#[derive(Deserialize)]
struct Head {
    version: Option<u64>,
}

/// The record in a file; `None` if there is no file.
///
/// The version is looked at first: a record of a newer wardlet is [`Error::Version`], whatever else it has.
pub fn read_record<T: Record>(path: &Path) -> Result<Option<T>> {
    read(path, LARGEST)?.map(|text| parse_record(&text, path)).transpose()
}

/// The record in these bytes; `path` is for messages.
pub fn parse_record<T: Record>(text: &[u8], path: &Path) -> Result<T> {
    let known = Versions { oldest: T::OLDEST, newest: T::VERSION };
    match parse::<Head>(text, path)?.version {
        Some(found) if !(u64::from(known.oldest)..=u64::from(known.newest)).contains(&found) => {
            Err(Error::Version { path: path.to_owned(), found, known })
        }
        // Without one, the record's own type says what is missing.
        _ => parse(text, path),
    }
}

/// Puts a record in place of the one in the file; it survives power loss when this returns.
pub fn write_record<T: Record>(path: &Path, record: &T) -> Result<()> {
    write(path, &text(record, path)?)
}

/// A value without a version in a JSON file; `None` if there is no file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    read(path, LARGEST)?.map(|text| parse(&text, path)).transpose()
}

/// Puts a value in place of the one in a JSON file; it survives power loss when this returns.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    write(path, &text(value, path)?)
}

fn parse<T: DeserializeOwned>(text: &[u8], path: &Path) -> Result<T> {
    serde_json::from_slice(text).map_err(|cause| Error::Damaged { path: path.to_owned(), cause })
}

fn text<T: Serialize>(value: &T, path: &Path) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(value);
    text.map_err(|cause| Error::Damaged { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pod {
        version: u32,
        name: String,
    }

    impl Record for Pod {
        const VERSION: u32 = 3;
        const OLDEST: u32 = 2;
    }

    fn parsed(text: &str) -> Result<Pod> {
        parse_record(text.as_bytes(), Path::new("/state/pod.json"))
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pod.json");
        assert_eq!(read_record::<Pod>(&path).unwrap(), None);
        let pod = Pod { version: 3, name: "web".to_owned() };
        write_record(&path, &pod).unwrap();
        assert_eq!(read_record(&path).unwrap(), Some(pod));
    }

    #[test]
    fn a_record_of_another_version_says_so_before_anything_else() {
        assert_eq!(parsed(r#"{"version":2,"name":"old"}"#).unwrap().name, "old");
        let newer = parsed(r#"{"version":4,"name":"web","field":"of the future"}"#).unwrap_err();
        assert_eq!(newer.to_string(), "/state/pod.json has version 4; this wardlet reads version 2 to 3");
        assert_eq!(newer.hint(), Some("use the newer wardlet that wrote it"));
        assert!(matches!(parsed(r#"{"version":1}"#), Err(Error::Version { found: 1, .. })));
    }

    #[test]
    fn a_damaged_record_is_named() {
        for text in
            ["", "{", "[]", r#"{"name":"web"}"#, r#"{"version":"3","name":"web"}"#, r#"{"version":3}"#]
        {
            let error = parsed(text).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{text}: {error}");
            assert!(error.to_string().contains("/state/pod.json"), "{error}");
        }
    }
}
