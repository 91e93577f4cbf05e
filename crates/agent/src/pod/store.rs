//! Records of pods in the state directory: a later process finds and adopts pods by them.
//!
//! ```text
//! <state>/pods/<uid>/agent.json     the pod's definition and runtime; written before anything is created
//! <state>/pods/<uid>/status.json    the last published status
//! <state>/pods/<uid>/agent.lock     held by the process that manages the pod
//! <state>/pods/<uid>/stop.json      a request of another process to stop the pod
//! <state>/pods.lock                 held while a name is looked up and recorded
//! <home>/pods/<uid>/                volumes and files of the pod; its home is the state directory, or the kubelet's root
//!                                   directory for a node of a cluster
//! <state>/logs/<namespace>_<name>_<uid>/<container>/<attempt>.log; below /var/log/pods for a node of a cluster
//! ```
//!
//! The record is written right after the lock is taken, and removed right before the lock file, so that a
//! directory without a record has only files that [`sweep`](crate::pod::sweep) may remove.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::AtomicFile;
use ids::IdMapping;
use manifest::k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use telemetry::log::pod_span;
use tracing::Span;
use types::PodUid;

use crate::error::{Error, Result};
use crate::housekeeping::logs::remove_links;
use crate::pod::local_volume::LocalVolume;
use crate::pod::lock::{LOCK, PodLock, is_managed};
use crate::pod::pod_files::PodFiles;
use crate::pod::removal::{gone, remove_file, remove_tree};
use crate::pod::resize::record::ResizeRecord;
use crate::pod::spec::grace;
use crate::status::view::PodStatus;

const VERSION: u32 = 1;
pub(crate) const RECORD: &str = "agent.json";
const STATUS: &str = "status.json";
const STOP: &str = "stop.json";
pub(crate) const PODS: &str = "pods";
const HOSTS: &str = "etc-hosts";
pub(crate) const CONTAINERS: &str = "containers";
/// Extension of a file that is not completely written.
const NEW: &str = "new";

/// The record of a pod: its definition, its runtime and its host IDs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRecord {
    version: u32,
    /// Its UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Hash of its definition and user namespace, in hexadecimal.
    pub hash: String,
    /// The runtime's endpoint.
    pub endpoint: String,
    /// The runtime handler.
    pub handler: String,
    /// Mode of its user namespace: `own`, `shared` or `host`.
    pub mode: String,
    /// ID mappings of its users; empty in the host's user namespace.
    pub uids: Vec<IdMapping>,
    /// ID mappings of its groups.
    pub gids: Vec<IdMapping>,
    /// The PID of the process that manages it, or managed it last.
    pub process: u32,
    /// The directory of all pods' logs, where it is not in the state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_logs_dir: Option<PathBuf>,
    /// The kubelet's root directory that has its volumes and files, where they are not in the state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_dir: Option<PathBuf>,
    /// Whether its sandbox was there before the record, with the SELinux level that the runtime has chosen: containers get
    /// no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_runtime_level: bool,
    /// What of it does not have the resources of its definition yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resize: Option<ResizeRecord>,
    /// Its definition, with the resources that it was given.
    pub pod: Pod,
}

impl durable::Record for PodRecord {
    const VERSION: u32 = VERSION;
}

/// The fields of a new record.
pub(crate) struct Parts {
    pub(crate) uid: PodUid,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) hash: u64,
    pub(crate) endpoint: String,
    pub(crate) handler: String,
    pub(crate) pod_logs_dir: Option<PathBuf>,
    pub(crate) root_dir: Option<PathBuf>,
    pub(crate) pod: Pod,
}

impl PodRecord {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { uid, namespace, name, hash, endpoint, handler, pod_logs_dir, root_dir, pod } = parts;
        Self {
            version: VERSION,
            uid,
            namespace,
            name,
            hash: format!("{hash:016x}"),
            endpoint,
            handler,
            mode: "host".to_owned(),
            uids: Vec::new(),
            gids: Vec::new(),
            process: std::process::id(),
            pod_logs_dir,
            root_dir,
            has_runtime_level: false,
            resize: None,
            pod,
        }
    }

    /// The record with a new definition and its hash, and with what of the pod does not have its resources yet.
    pub(crate) fn updated(self, mut pod: Pod, hash: u64, resize: Option<ResizeRecord>) -> Self {
        pod.metadata.uid = Some(self.uid.as_str().to_owned());
        Self { hash: format!("{hash:016x}"), pod, resize, ..self }
    }

    pub(crate) fn managed_by_this_process(self) -> Self {
        Self { process: std::process::id(), ..self }
    }
}

/// A request to stop a pod, for the process that manages it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopRequest {
    /// Grace period in seconds; `None` for the pod's own.
    pub grace: Option<u64>,
}

/// A recorded pod.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its record.
    pub record: PodRecord,
    /// Its last published status, if there is one.
    pub status: Option<PodStatus>,
    /// Whether a process manages it, i.e. holds its lock.
    pub is_managed: bool,
    /// The directory of its containers' logs.
    pub logs: PathBuf,
    /// The directory of its volumes and files.
    pub files: PathBuf,
}

impl Stored {
    /// How long its containers may take to end after SIGTERM.
    #[must_use]
    pub fn grace(&self) -> Duration {
        grace(&self.record.pod.spec.clone().unwrap_or_default())
    }

    /// Its volumes that the node has made of files.
    #[must_use]
    pub fn local_volumes(&self) -> Vec<LocalVolume> {
        let volumes = self.record.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.filter_map(|volume| LocalVolume::of(volume, &self.files)).collect()
    }

    /// The directory of what the node keeps for each of its containers, such as termination messages.
    #[must_use]
    pub fn container_files(&self) -> PathBuf {
        self.files.join(CONTAINERS)
    }

    /// Its `/etc/hosts`, which is there once the pod has an address.
    #[must_use]
    pub fn hosts_file(&self) -> PathBuf {
        self.files.join(HOSTS)
    }
}

/// The directories of one pod: its records, its files and its logs.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its records.
    pub(crate) dir: PathBuf,
    /// Its volumes, /etc/hosts and termination messages.
    pub(crate) files: PathBuf,
    pub(crate) logs: PathBuf,
    /// The directory of links to the logs, where the node has one.
    pub(crate) log_links: Option<PathBuf>,
}

impl Place {
    /// The directories of a recorded pod.
    pub(crate) fn of(state: &Path, record: &PodRecord) -> Self {
        let place = Self::new(state, &record.uid, &record.namespace, &record.name);
        place.with_logs_in(record.pod_logs_dir.as_deref()).with_files_in(record.root_dir.as_deref())
    }

    /// With volumes and files in a kubelet's root directory.
    pub(crate) fn with_files_in(self, root: Option<&Path>) -> Self {
        let (Some(root), Some(uid)) = (root, self.dir.file_name()) else { return self };
        Self { files: root.join(PODS).join(uid), ..self }
    }

    /// The directory that has its volumes and files: the state directory, or a kubelet's root directory.
    pub(crate) fn home(&self) -> &Path {
        self.files.ancestors().nth(2).unwrap_or(&self.files)
    }

    /// With logs in a directory of all pods' logs, as `/var/log/pods`, and links to them beside it.
    pub(crate) fn with_logs_in(self, dir: Option<&Path>) -> Self {
        let (Some(dir), Some(name)) = (dir, self.logs.file_name()) else { return self };
        Self { logs: dir.join(name), log_links: Some(dir.with_file_name("containers")), ..self }
    }

    pub(crate) fn new(state: &Path, uid: &PodUid, namespace: &str, name: &str) -> Self {
        let logs = state.join("logs").join(format!("{namespace}_{name}_{uid}"));
        let dir = state.join(PODS).join(uid.as_str());
        Self { files: dir.clone(), dir, logs, log_links: None }
    }

    /// The tracing span of the pod, which the directory of its logs is named by.
    pub(crate) fn span(&self) -> Span {
        let name = self.logs.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut parts = name.splitn(3, '_');
        let mut part = || parts.next().unwrap_or_default();
        pod_span(part(), part(), part())
    }

    /// Creates the directory and takes the pod's lock; `None` if another process holds it.
    pub(crate) fn take(&self) -> Result<Option<PodLock>> {
        PodLock::take(&self.dir)
    }

    pub(crate) fn make_logs(&self) -> Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.logs);
        made.map_err(Error::file("make", &self.logs))
    }

    pub(crate) fn write_record(&self, record: &PodRecord) -> Result<()> {
        write(&self.dir.join(RECORD), record)
    }

    /// Records a new definition of a running pod, and what of it does not have its resources yet.
    pub(crate) fn update_record(&self, pod: Pod, hash: u64, resize: Option<ResizeRecord>) -> Result<()> {
        let record = self.known_record()?.updated(pod, hash, resize);
        self.write_record(&record)
    }

    /// Records what of a running pod does not have its resources yet.
    pub(crate) fn record_resize(&self, resize: Option<ResizeRecord>) -> Result<()> {
        let record = self.known_record()?;
        if record.resize == resize {
            return Ok(());
        }
        self.write_record(&PodRecord { resize, ..record })
    }

    fn known_record(&self) -> Result<PodRecord> {
        let path = self.dir.join(RECORD);
        let record = durable::read_record::<PodRecord>(&path)?;
        record.ok_or_else(|| Error::Record { path, cause: "it is gone".to_owned() })
    }

    pub(crate) fn write_status(&self, status: &PodStatus) -> Result<()> {
        write(&self.dir.join(STATUS), status)
    }

    pub(crate) fn read_status(&self) -> Option<PodStatus> {
        durable::read_json(&self.dir.join(STATUS)).ok().flatten()
    }

    pub(crate) fn write_stop(&self, request: &StopRequest) -> Result<()> {
        write(&self.dir.join(STOP), request)
    }

    pub(crate) fn stop_request(&self) -> Option<StopRequest> {
        durable::read_json(&self.dir.join(STOP)).ok().flatten()
    }

    pub(crate) fn remove_logs(&self) -> Result<()> {
        remove_tree(&self.logs)?;
        match &self.log_links {
            Some(links) => remove_links(links, &self.logs).map_err(Error::file("remove links in", links)),
            None => {
                // The parent is not empty unless this was the last pod.
                let _ = self.logs.parent().map(fs::remove_dir);
                Ok(())
            }
        }
    }

    /// Whether the pod has a record, readable or not.
    pub(crate) fn has_record(&self) -> bool {
        self.dir.join(RECORD).symlink_metadata().is_ok()
    }

    /// Whether the pod has volumes, by their own record.
    pub(crate) fn has_volumes(&self) -> bool {
        self.files.join("volumes.json").exists()
    }

    /// What of a pod may have files of the pod's users: while one of these exists, its host IDs are in use.
    pub(crate) fn owned_by_pod(&self) -> Vec<PathBuf> {
        let volumes = ["volumes", "volumes.json", "volume-subpaths", "plugins"];
        [CONTAINERS, HOSTS].into_iter().chain(volumes).map(|name| self.files.join(name)).collect()
    }

    /// Removes the files of the pod's users, and records that it has no host IDs. The rest of the record stays, and so do
    /// status and logs. The caller holds the lock.
    pub(crate) fn forget_users(&self) -> Result<()> {
        self.remove_files_of_users()?;
        if let Some(record) = durable::read_record::<PodRecord>(&self.dir.join(RECORD))?
            && !(record.uids.is_empty() && record.gids.is_empty())
        {
            self.write_record(&PodRecord { uids: Vec::new(), gids: Vec::new(), ..record })?;
        }
        Ok(())
    }

    /// Removes the files of the pod. The record goes last but one, so that a pod whose removal failed is
    /// found again; the lock goes last, so that no other process adopts the pod before. The caller holds the lock.
    pub(crate) fn remove(&self) -> Result<()> {
        self.remove_files_of_users()?;
        if self.files != self.dir {
            PodFiles(&self.files).remove()?;
        }
        let begun = [RECORD, STATUS, STOP].map(|name| Path::new(name).with_extension(NEW));
        let begun = begun.iter().filter_map(|name| name.to_str());
        for name in begun.chain([STOP, STATUS]) {
            self.remove_file(name)?;
        }
        self.check_empty()?;
        self.remove_file(RECORD)?;
        self.remove_file(LOCK)?;
        match fs::remove_dir(&self.dir) {
            // Another process has taken the lock of the directory since, and removes it or has a pod there.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => gone(removed).map_err(Error::file("remove", &self.dir)),
        }
    }

    /// Removes the files that belong to the pod's users, and the record of its block for other programs.
    fn remove_files_of_users(&self) -> Result<()> {
        remove_tree(&self.files.join(CONTAINERS))?;
        remove_file(&self.files.join(HOSTS))?;
        PodFiles(&self.files).forget_users()
    }

    fn remove_file(&self, name: &str) -> Result<()> {
        remove_file(&self.dir.join(name))
    }

    /// Fails if there is more than the record and the lock: while the record exists, the rest is found again.
    fn check_empty(&self) -> Result<()> {
        let mut entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        match entries.find(|entry| entry.file_name() != RECORD && entry.file_name() != LOCK) {
            None => Ok(()),
            Some(_) => Err(Error::file("remove", &self.dir)(io::ErrorKind::DirectoryNotEmpty.into())),
        }
    }
}

/// Reads all recorded pods of this state directory. The second list has an error for each record that cannot
/// be read.
///
/// # Errors
/// If the directory cannot be read.
pub fn stored(state: &Path) -> Result<(Vec<Stored>, Vec<Error>)> {
    let pods = state.join(PODS);
    let entries = match fs::read_dir(&pods) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        entries => entries.map_err(Error::file("read", &pods))?,
    };
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        match one(state, &entry.path()) {
            Ok(Some(stored)) => found.push(stored),
            Ok(None) => {}
            Err(error) => wrong.push(error),
        }
    }
    found.sort_by(|a, b| (&a.record.namespace, &a.record.name).cmp(&(&b.record.namespace, &b.record.name)));
    Ok((found, wrong))
}

/// The recorded pod with this UID, if there is one.
///
/// # Errors
/// If its record cannot be read.
pub fn stored_one(state: &Path, uid: &str) -> Result<Option<Stored>> {
    one(state, &state.join(PODS).join(uid))
}

fn one(state: &Path, dir: &Path) -> Result<Option<Stored>> {
    let path = dir.join(RECORD);
    let Some(record) = durable::read_record::<PodRecord>(&path)? else { return Ok(None) };
    let place = Place::of(state, &record);
    let status = place.read_status();
    let is_managed = is_managed(dir);
    Ok(Some(Stored { status, is_managed, logs: place.logs, files: place.files, record }))
}

/// Requests that the process that manages the pod stops it. The process watches for the request's file.
///
/// # Errors
/// If the request cannot be written.
pub fn ask_to_stop(state: &Path, pod: &PodRecord, request: StopRequest) -> Result<()> {
    Place::of(state, pod).write_stop(&request)
}

/// Writes a record. It survives a power loss once this has returned.
fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value);
    let text = text.map_err(|e| Error::Record { path: path.to_owned(), cause: e.to_string() })?;
    let temporary = path.with_extension(NEW);
    Ok(AtomicFile::at(path).temporary(temporary.file_name().unwrap_or_default()).replace(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PodRecord {
        let uid = PodUid::new("u-1").unwrap();
        let (namespace, name) = ("default".to_owned(), "web".to_owned());
        let endpoint = "unix:///run/x.sock".to_owned();
        PodRecord::new(Parts {
            uid,
            namespace,
            name,
            hash: 7,
            endpoint,
            handler: String::new(),
            pod_logs_dir: None,
            root_dir: None,
            pod: Pod::default(),
        })
    }

    #[test]
    fn logs_outside_the_state_directory_are_found_by_the_record_and_go_with_the_pod() {
        let dir = tempfile::tempdir().unwrap();
        let (state, pods) = (dir.path().join("state"), dir.path().join("log/pods"));
        let record = PodRecord { pod_logs_dir: Some(pods.clone()), ..record() };
        let place = Place::of(&state, &record);
        assert_eq!(place.log_links.as_deref(), Some(dir.path().join("log/containers").as_path()));
        let _lock = place.take().unwrap().unwrap();
        place.write_record(&record).unwrap();
        place.make_logs().unwrap();
        let stored = stored_one(&state, "u-1").unwrap().unwrap();
        assert_eq!(stored.logs, pods.join("default_web_u-1"));
        place.remove_logs().unwrap();
        assert!(!stored.logs.exists() && pods.exists());
    }

    #[test]
    fn a_pod_is_found_as_long_as_it_is_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let record = record();
        let place = Place::new(dir.path(), &record.uid, "default", "web");
        let lock = place.take().unwrap();
        assert!(lock.is_some());
        place.write_record(&record).unwrap();
        let (found, wrong) = stored(dir.path()).unwrap();
        assert!(wrong.is_empty());
        assert_eq!((found[0].record.name.as_str(), found[0].is_managed), ("web", true));
        assert!(place.take().unwrap().is_none(), "two processes manage one pod");
        drop(lock);
        assert!(!stored(dir.path()).unwrap().0[0].is_managed);
        place.remove().unwrap();
        assert!(stored(dir.path()).unwrap().0.is_empty());
        place.remove().unwrap();
    }

    #[test]
    fn what_a_killed_process_left_half_written_does_not_keep_a_pod_from_going() {
        let dir = tempfile::tempdir().unwrap();
        let record = record();
        let place = Place::new(dir.path(), &record.uid, "default", "web");
        let _lock = place.take().unwrap();
        place.write_record(&record).unwrap();
        for name in ["agent.new", "status.new", "stop.new"] {
            fs::write(place.dir.join(name), "{").unwrap();
        }
        place.remove().unwrap();
        assert!(!place.dir.exists());
    }

    /// Between the removal of the lock and that of the directory, another process can lock the directory anew: its
    /// files were removed by a second try.
    #[test]
    fn files_that_are_not_of_the_record_keep_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let record = record();
        let place = Place::new(dir.path(), &record.uid, "default", "web");
        let _lock = place.take().unwrap();
        place.write_record(&record).unwrap();
        fs::write(place.dir.join("file"), "x").unwrap();
        let kept = place.remove().unwrap_err();
        assert!(
            matches!(&kept, Error::File { cause, .. } if cause.kind() == io::ErrorKind::DirectoryNotEmpty)
        );
        assert!(place.has_record() && place.dir.join(LOCK).exists());
        fs::remove_file(place.dir.join("file")).unwrap();
        place.remove().unwrap();
        assert!(!place.dir.exists());
    }

    #[test]
    fn a_record_of_a_later_version_is_told_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path(), &PodUid::new("u-1").unwrap(), "default", "web");
        let _lock = place.take().unwrap();
        place.write_record(&PodRecord { version: 2, ..record() }).unwrap();
        let (found, wrong) = stored(dir.path()).unwrap();
        assert!(found.is_empty() && wrong[0].to_string().contains("version 2"), "{wrong:?}");
    }
}
