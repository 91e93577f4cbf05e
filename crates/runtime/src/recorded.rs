//! What a server's records say of its sandboxes, for readers that are no server themselves.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files;
use crate::layout::Layout;
use crate::records::{SandboxRecord, SandboxStage};

/// A sandbox that the server of this node has recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSandbox {
    /// Its ID.
    pub id: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The parent cgroup of its containers, from the root of each hierarchy.
    pub cgroup: String,
    /// Whether it has a user namespace of its own.
    pub isolated: bool,
    /// Whether it was created in this boot and has not been stopped.
    pub ready: bool,
}

/// The sandboxes in the records below `state`, the server's state directory, and the records that cannot be read.
/// Nothing is locked or changed, and a directory without records is no error.
#[must_use]
pub fn recorded_sandboxes(state: &Path) -> (Vec<RecordedSandbox>, Vec<Error>) {
    let dir = Layout::sandbox_states_below(state);
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return (found, unreadable),
        Err(cause) => return (found, vec![Error::File { what: "list", path: dir, cause }]),
    };
    let boot = match monitor::record::boot_id() {
        Ok(boot) => boot,
        Err(cause) => return (found, vec![Error::step("read the boot ID", cause)]),
    };
    for entry in entries.flatten() {
        match recorded(&entry.path(), &boot) {
            Ok(sandbox) => found.extend(sandbox),
            Err(error) => unreadable.push(error),
        }
    }
    (found, unreadable)
}

fn recorded(places: &Path, boot: &str) -> Result<Option<RecordedSandbox>> {
    let Some(record) = files::read::<SandboxRecord>(&places.join("sandbox.json"))? else { return Ok(None) };
    let metadata = record.config.metadata.unwrap_or_default();
    Ok(Some(RecordedSandbox {
        id: record.id.as_str().to_owned(),
        uid: metadata.uid,
        namespace: metadata.namespace,
        name: metadata.name,
        cgroup: record.cgroup.path().to_owned(),
        isolated: record.ids.is_some(),
        ready: record.stage == SandboxStage::Ready && record.boot_id == boot,
    }))
}

#[cfg(test)]
mod tests {
    use cri::{PodSandboxConfig, PodSandboxMetadata};

    use super::*;
    use crate::id::Id;
    use crate::records::{CgroupParent, VERSION};

    fn record(id: &Id, boot: &str) -> SandboxRecord {
        let metadata = PodSandboxMetadata {
            name: "web".into(),
            namespace: "shop".into(),
            uid: "u-1".into(),
            attempt: 0,
        };
        SandboxRecord {
            version: VERSION,
            id: id.clone(),
            created_at: 1,
            boot_id: boot.to_owned(),
            stage: SandboxStage::Ready,
            config: PodSandboxConfig { metadata: Some(metadata), ..Default::default() },
            handler: String::new(),
            ids: None,
            cgroup: CgroupParent::Own(format!("/elsewhere/{}", id.as_str())),
            label: None,
            ips: Vec::new(),
        }
    }

    #[test]
    fn a_sandbox_of_this_boot_is_ready_and_a_damaged_record_is_told() {
        let state = tempfile::tempdir().unwrap();
        assert!(
            matches!(recorded_sandboxes(state.path()), (found, errors) if found.is_empty() && errors.is_empty())
        );
        let boot = monitor::record::boot_id().unwrap();
        for (boot, ready) in [(boot.as_str(), true), ("another boot", false)] {
            let id = Id::random().unwrap();
            let places = Layout::sandbox_states_below(state.path()).join(id.as_str());
            fs::create_dir_all(&places).unwrap();
            files::write(&places.join("sandbox.json"), &record(&id, boot)).unwrap();
            let (found, errors) = recorded_sandboxes(state.path());
            assert!(errors.is_empty(), "{errors:?}");
            let found = found.into_iter().find(|sandbox| sandbox.id == id.as_str()).unwrap();
            assert_eq!((found.uid.as_str(), found.namespace.as_str(), found.ready), ("u-1", "shop", ready));
            assert_eq!((found.cgroup, found.isolated), (format!("/elsewhere/{}", id.as_str()), false));
        }
        let damaged = Layout::sandbox_states_below(state.path()).join("0123");
        fs::create_dir_all(&damaged).unwrap();
        fs::write(damaged.join("sandbox.json"), "{").unwrap();
        let (found, errors) = recorded_sandboxes(state.path());
        assert_eq!((found.len(), errors.len()), (2, 1));
    }
}
