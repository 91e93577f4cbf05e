//! The identity of a state directory. Each sandbox and container carries it in an annotation: it tells the pods of this
//! state directory from those of another one, and from those of a kubelet or another client of the same runtime.

use std::collections::BTreeMap;
use std::path::Path;

use durable::AtomicFile;
use types::keys::INSTANCE;

use crate::error::{Error, Result};
use crate::pod::lock::Names;

const FILE: &str = "instance";
const UUID: &str = "/proc/sys/kernel/random/uuid";
/// More bytes than the file has.
const LIMIT: u64 = 256;

/// The random ID of a state directory, which stays the same for as long as the directory exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceId(String);

impl InstanceId {
    /// Reads the ID of this state directory. The first call creates it.
    ///
    /// # Errors
    /// If the file `instance` cannot be read or written, or holds something else.
    pub fn of(state: &Path) -> Result<Self> {
        let path = state.join(FILE);
        if let Some(found) = read(&path)? {
            return Ok(found);
        }
        let _names = Names::lock(state)?;
        // Another process may have created it meanwhile.
        if let Some(found) = read(&path)? {
            return Ok(found);
        }
        let made = random_uuid()?;
        AtomicFile::at(&path).replace(format!("{made}\n").as_bytes())?;
        Ok(Self(made))
    }

    /// Whether a sandbox or container with these annotations is of this state directory.
    #[must_use]
    pub fn owns(&self, annotations: &BTreeMap<String, String>) -> bool {
        annotations.get(INSTANCE).is_some_and(|id| *id == self.0)
    }

    /// The ID with this text, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (!text.is_empty() && text.chars().all(is_plain)).then(|| Self(text.to_owned()))
    }

    /// Its text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The annotation of sandboxes and containers of this state directory.
    pub(crate) fn annotation(&self) -> (String, String) {
        (INSTANCE.to_owned(), self.0.clone())
    }

    #[cfg(test)]
    pub(crate) fn for_test(id: &str) -> Self {
        Self(id.to_owned())
    }
}

fn read(path: &Path) -> Result<Option<InstanceId>> {
    let Some(bytes) = durable::read(path, LIMIT)? else { return Ok(None) };
    let wrong = || {
        let cause = "it is not the ID of a state directory".to_owned();
        Error::Record { path: path.to_owned(), cause }
    };
    InstanceId::parse(String::from_utf8_lossy(&bytes).trim()).map(Some).ok_or_else(wrong)
}

/// A random UUID, from the kernel.
pub(crate) fn random_uuid() -> Result<String> {
    let text = std::fs::read_to_string(UUID).map_err(Error::file("read", Path::new(UUID)))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_keeps_its_id_and_no_two_have_the_same() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = InstanceId::of(one.path()).unwrap();
        assert_eq!(InstanceId::of(one.path()).unwrap(), first);
        assert_ne!(InstanceId::of(two.path()).unwrap(), first);
        let own = BTreeMap::from([first.annotation()]);
        assert!(first.owns(&own) && !InstanceId::of(two.path()).unwrap().owns(&own));
        assert!(!first.owns(&BTreeMap::new()), "another client writes no annotation of ours");
    }

    #[test]
    fn processes_that_start_at_the_same_time_agree_on_the_id() {
        let dir = tempfile::tempdir().unwrap();
        let ids: Vec<InstanceId> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| InstanceId::of(dir.path()).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    }

    #[test]
    fn a_damaged_id_is_an_error_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "\n", "../x", "a b"] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            assert!(matches!(InstanceId::of(dir.path()), Err(Error::Record { .. })), "{text:?}");
        }
    }
}
