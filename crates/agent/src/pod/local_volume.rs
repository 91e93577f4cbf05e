//! Volumes that the node makes of files, for what measures them.

use std::path::{Path, PathBuf};

use manifest::k8s_openapi::api::core::v1::Volume;
use types::VolumeName;
use volumes::MadeKind;

/// A volume that the node has made of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalVolume {
    /// Its name in the pod.
    pub name: String,
    /// Its directory, which may be a mount: of memory, or of another filesystem.
    pub path: PathBuf,
    /// Whether it counts as ephemeral storage of the pod, if it is on the node's disk.
    pub is_ephemeral_storage: bool,
}

impl LocalVolume {
    /// `None` for a volume of another kind. `files` is the directory of the pod's files.
    pub(crate) fn of(volume: &Volume, files: &Path) -> Option<Self> {
        let kind = kind(volume)?;
        let name = VolumeName::new(volume.name.as_str()).ok()?;
        Some(Self {
            path: files.join(kind.volume(&name)),
            name: volume.name.clone(),
            is_ephemeral_storage: matches!(kind, MadeKind::EmptyDir | MadeKind::ConfigMap),
        })
    }
}

fn kind(volume: &Volume) -> Option<MadeKind> {
    let kinds = [
        (volume.empty_dir.is_some(), MadeKind::EmptyDir),
        (volume.config_map.is_some(), MadeKind::ConfigMap),
        (volume.secret.is_some(), MadeKind::Secret),
        (volume.downward_api.is_some(), MadeKind::DownwardApi),
        (volume.projected.is_some(), MadeKind::Projected),
    ];
    kinds.into_iter().find(|(is_it, _)| *is_it).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_node_makes_of_files_is_local() {
        let of = |source| {
            let mut volume = json!({"name": "v"});
            volume.as_object_mut().unwrap().extend(serde_json::Map::clone(&source));
            LocalVolume::of(&serde_json::from_value(volume).unwrap(), Path::new("/pods/u"))
        };
        let source = |text: &str| serde_json::from_str(text).unwrap();
        let found = of(source(r#"{"emptyDir":{}}"#)).unwrap();
        assert_eq!(found.path, Path::new("/pods/u/volumes/kubernetes.io~empty-dir/v"));
        assert!(found.is_ephemeral_storage);
        let secret = of(source(r#"{"secret":{"secretName":"s"}}"#)).unwrap();
        assert_eq!(secret.path, Path::new("/pods/u/volumes/kubernetes.io~secret/v"));
        assert!(!secret.is_ephemeral_storage);
        assert_eq!(of(source(r#"{"hostPath":{"path":"/srv"}}"#)), None);
        assert_eq!(of(source(r#"{"image":{"reference":"i"}}"#)), None);
    }
}
