//! The names of the recorded pods. A record is parsed once, however often its name is asked for: a start would take longer
//! the more pods there are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use types::PodUid;

use crate::error::{Error, Result};
use crate::pod::store::{PODS, PodRecord, RECORD};

/// Which pod a record is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) uid: PodUid,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Named {
    pub(crate) fn is(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.as_str(), self.name.as_str()) == (namespace, name)
    }
}

/// A file as it was written: the one that takes its place differs in some of these.
type Written = (u64, u64, u64, [i64; 4]);

fn written(record: &Path) -> io::Result<Written> {
    let stat = fs::symlink_metadata(record)?;
    let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()];
    Ok((stat.dev(), stat.ino(), stat.size(), times))
}

type Known = BTreeMap<PathBuf, (Written, Arc<Named>)>;

/// By the directory of all records of a state directory; a process has one.
static KNOWN: Mutex<BTreeMap<PathBuf, Known>> = Mutex::new(BTreeMap::new());

/// The names of all recorded pods of this state directory. The second list has an error for each record that cannot be
/// read.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn names(state: &Path) -> Result<(Vec<Arc<Named>>, Vec<Error>)> {
    let pods = state.join(PODS);
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = all.remove(&pods).unwrap_or_default();
    let entries = match fs::read_dir(&pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        entries => entries.map_err(Error::file("read", &pods))?,
    };
    let (mut known, mut wrong) = (Known::new(), Vec::new());
    for entry in entries.flatten() {
        let record = entry.path().join(RECORD);
        // One that is replaced meanwhile is known as the older one, and is read again next time.
        let Ok(written) = written(&record) else { continue };
        let named = match before.get(&record).filter(|(read, _)| *read == written) {
            Some((_, named)) => Ok(Some(Arc::clone(named))),
            None => read(&record),
        };
        match named {
            Ok(Some(named)) => drop(known.insert(record, (written, named))),
            Ok(None) => {}
            Err(error) => wrong.push(error),
        }
    }
    let found = known.values().map(|(_, named)| Arc::clone(named)).collect();
    all.insert(pods, known);
    Ok((found, wrong))
}

fn read(record: &Path) -> Result<Option<Arc<Named>>> {
    let read = durable::read_record::<PodRecord>(record)?;
    Ok(read.map(|PodRecord { uid, namespace, name, .. }| Arc::new(Named { uid, namespace, name })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: &Path, uid: &str, name: &str) {
        let dir = state.join(PODS).join(uid);
        fs::create_dir_all(&dir).unwrap();
        let text = serde_json::json!({
            "version": 1, "uid": uid, "namespace": "shop", "name": name, "hash": "7", "endpoint": "unix:///x.sock",
            "handler": "", "mode": "host", "uids": [], "gids": [], "process": 1, "pod": {"metadata": {}},
        });
        fs::write(dir.join("next"), text.to_string()).unwrap();
        fs::rename(dir.join("next"), dir.join(RECORD)).unwrap();
    }

    fn found(state: &Path) -> Vec<String> {
        let (found, wrong) = names(state).unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
        found.iter().map(|named| format!("{} {}/{}", named.uid, named.namespace, named.name)).collect()
    }

    #[test]
    fn names_are_those_of_the_records_as_they_are_now() {
        let state = tempfile::tempdir().unwrap();
        assert!(found(state.path()).is_empty());
        record(state.path(), "u-1", "web");
        record(state.path(), "u-2", "job");
        assert_eq!(found(state.path()), ["u-1 shop/web", "u-2 shop/job"]);
        assert_eq!(found(state.path()), ["u-1 shop/web", "u-2 shop/job"]);
        record(state.path(), "u-2", "later");
        fs::remove_dir_all(state.path().join(PODS).join("u-1")).unwrap();
        assert_eq!(found(state.path()), ["u-2 shop/later"]);
        fs::write(state.path().join(PODS).join("u-2").join(RECORD), "{").unwrap();
        let (found, wrong) = names(state.path()).unwrap();
        assert!(found.is_empty() && wrong.len() == 1, "{found:?} {wrong:?}");
    }
}
