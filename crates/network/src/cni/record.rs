use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use durable::{AtomicFile, Guard};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::configuration::List;
use super::invocation::PATIENCE;
use crate::error::{Error, Result};
use crate::pod::check_id;

/// The version that is written.
pub(super) const VERSION: u32 = 1;

/// What plugins got for a pod. The record is written before the first plugin runs, and stays until every DEL has
/// succeeded: DEL gets the same input as ADD, whatever the configuration says by then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) version: u32,
    pub(super) sandbox: String,
    pub(super) netns: PathBuf,
    pub(super) arguments: String,
    pub(super) capabilities: BTreeMap<String, Value>,
    pub(super) bin_dirs: Vec<PathBuf>,
    pub(super) list: List,
    /// The final result, once all plugins have succeeded.
    pub(super) result: Option<Value>,
}

impl durable::Record for Record {
    const VERSION: u32 = VERSION;
}

/// `<state>/network/cni/<sandbox>.json`, and beside it `<sandbox>.log` while a plugin runs.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
}

impl Cache {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        durable::make_dirs(dir, 0o755)?;
        Ok(Self { dir: dir.to_owned() })
    }

    pub(super) fn list(&self) -> Result<Vec<String>> {
        let listed = fs::read_dir(&self.dir).map_err(Error::io("list", &self.dir))?;
        let mut found = Vec::new();
        for entry in listed {
            let name = entry.map_err(Error::io("list", &self.dir))?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            found.extend(id.filter(|id| check_id(id).is_ok()).map(str::to_owned));
        }
        Ok(found)
    }

    pub(super) fn read(&self, sandbox: &str) -> Result<Option<Record>> {
        Ok(durable::read_record(&self.path(sandbox, "json"))?)
    }

    pub(super) fn write(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.sandbox, "json");
        let text = serde_json::to_vec(record)
            .map_err(|error| Error::Record { path: path.clone(), why: error.to_string() })?;
        let file = AtomicFile::at(&path).temporary(format!("{}.new", record.sandbox));
        Ok(file.replace(&text)?)
    }

    /// The record is removed last.
    pub(super) fn remove(&self, sandbox: &str) -> Result<()> {
        for kind in ["log", "new", "json"] {
            let path = self.path(sandbox, kind);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The file for a plugin's standard error. It is locked, and the plugin has it open: a plugin that still runs
    /// after its parent was killed is waited for here, before another is run for the same pod.
    pub(super) fn log(&self, sandbox: &str) -> Result<File> {
        let path = self.path(sandbox, "log");
        let open =
            File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = open.map_err(Error::io("open", &path))?;
        let locked = Guard::lock(file, &path, PATIENCE).map_err(|error| match error {
            durable::Error::Locked { waited, .. } => Error::CniBusy { sandbox: sandbox.to_owned(), waited },
            error => error.into(),
        })?;
        let file = File::from(locked.into_fd(&path)?);
        file.set_len(0).map_err(Error::io("empty", &path))?;
        Ok(file)
    }

    fn path(&self, sandbox: &str, kind: &str) -> PathBuf {
        self.dir.join(format!("{sandbox}.{kind}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in super::super) fn record() -> Record {
        let list = json!({ "name": "n", "version": "1.0.0", "plugins": [{ "kind": "ptp", "settings": {} }] });
        Record {
            version: VERSION,
            sandbox: "0123456789abcdef".to_owned(),
            netns: "/run/ns".into(),
            arguments: "K8S_POD_NAME=a".to_owned(),
            capabilities: BTreeMap::new(),
            bin_dirs: vec!["/opt/cni/bin".into()],
            list: serde_json::from_value(list).unwrap(),
            result: None,
        }
    }

    #[test]
    fn what_is_kept_is_read_and_goes_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let kept = Record { result: Some(json!({ "ips": [] })), ..record() };
        assert_eq!(cache.read(&kept.sandbox).unwrap(), None);
        cache.write(&kept).unwrap();
        drop(cache.log(&kept.sandbox).unwrap());
        assert_eq!(cache.read(&kept.sandbox).unwrap(), Some(kept.clone()));
        assert_eq!(cache.list().unwrap(), [kept.sandbox.as_str()]);
        cache.remove(&kept.sandbox).unwrap();
        cache.remove(&kept.sandbox).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_record_of_another_version_or_cut_short_is_told_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let newer = Record { version: 2, ..record() };
        cache.write(&newer).unwrap();
        let error = cache.read(&newer.sandbox).unwrap_err().to_string();
        assert!(error.contains("0123456789abcdef.json") && error.contains("version 2"), "{error}");
        fs::write(dir.path().join("0123456789abcdef.json"), "{").unwrap();
        assert!(cache.read(&newer.sandbox).is_err());
    }
}
