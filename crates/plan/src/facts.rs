use std::collections::BTreeMap;

use ids::BlockLength;
use selinux::HostDefaults;
use serde::{Deserialize, Serialize};

use crate::volume::{Medium, PersistentSource, Volume, VolumeKind, VolumeSource};

/// What this node can do: probed once, then passed to the planner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Facts {
    /// The kernel.
    pub kernel: KernelFacts,
    /// Filesystems and what they lie under.
    pub filesystems: FilesystemFacts,
    /// The container runtime.
    pub runtime: RuntimeFacts,
    /// SELinux.
    pub selinux: SelinuxFacts,
    /// The host IDs that may be leased.
    pub pool: PoolFacts,
}

/// Whether something was found to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Support {
    /// It worked.
    Yes,
    /// It did not, for this reason.
    No(String),
}

/// What the kernel supports, as probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelFacts {
    /// Making a user namespace and mapping it.
    pub user_namespaces: Support,
    /// How many the host allows (`user.max_user_namespaces`).
    pub max_user_namespaces: u64,
    /// Idmapping a mount of any filesystem at all.
    pub idmapped_mounts: Support,
}

/// Which filesystems can be idmapped, and which one lies under what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesystemFacts {
    /// By the kernel's name of it: whether a mount of it could be idmapped. One that is missing was
    /// not tried.
    pub idmap: BTreeMap<String, Support>,
    /// What the node makes volumes of a kind on.
    pub kinds: BTreeMap<VolumeKind, String>,
    /// What lies under a path of the host, and under all below it that is not named itself.
    pub paths: BTreeMap<String, String>,
    /// Whether set-user-ID programs work at a path of the host. A path that is missing was not probed, and counts as
    /// if they do.
    #[serde(default)]
    pub setuid: BTreeMap<String, SetuidFacts>,
}

/// Where set-user-ID and set-group-ID bits and file capabilities count on the host: no mount that shows the files
/// without `nosuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetuidFacts {
    /// On the path's own mount, or on another that shows the same files.
    pub here: bool,
    /// On a mount below the path.
    pub below: bool,
}

impl SetuidFacts {
    pub(crate) fn any(self) -> bool {
        self.here || self.below
    }
}

/// The container runtime, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeFacts {
    /// Its handlers by name; none at all for a runtime too old to name any.
    pub handlers: BTreeMap<String, HandlerFacts>,
    /// Whether it gives user namespaces to pods with the host's network.
    pub user_namespaces_host_network: bool,
}

/// What a runtime handler can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandlerFacts {
    /// User namespaces.
    pub user_namespaces: bool,
    /// Read-only mounts with all that is mounted below them.
    pub recursive_read_only_mounts: bool,
}

/// SELinux on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxFacts {
    /// Whether it is on.
    pub state: SelinuxState,
    /// The labels of the host's contexts file, where there is one.
    pub defaults: Option<HostDefaults>,
}

/// Whether SELinux is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelinuxState {
    /// Off.
    #[default]
    Disabled,
    /// On, and only logging.
    Permissive,
    /// On.
    Enforcing,
}

/// The host IDs that may be leased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolFacts {
    /// How many IDs a pod gets unless it asks for more.
    pub length: BlockLength,
    /// The longest block that an empty pool could give.
    pub longest: BlockLength,
    /// The most IDs that the operator gives to one pod (`userNamespaces.maxIdsPerPod`); `length` if not set.
    #[serde(default)]
    pub allowed: Option<BlockLength>,
    /// How many blocks of `length` there are.
    pub blocks: u64,
    /// Where the pool comes from.
    pub origin: String,
}

impl SelinuxFacts {
    /// Whether files have labels at all.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.state != SelinuxState::Disabled
    }
}

/// Whether a volume can be idmapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Idmappable {
    Yes {
        filesystem: String,
    },
    No {
        filesystem: String,
        cause: String,
    },
    /// Not known before it is mounted or tried.
    Unknown {
        filesystem: Option<String>,
    },
}

impl FilesystemFacts {
    /// The filesystem under the longest known path that this one is in.
    fn under(&self, path: &str) -> Option<&str> {
        let inside = |known: &str| {
            let rest = path.strip_prefix(known.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let longest =
            self.paths.iter().filter(|(known, _)| inside(known)).max_by_key(|(known, _)| known.len());
        longest.map(|(_, filesystem)| filesystem.as_str())
    }

    /// Where set-user-ID bits and file capabilities at this path count on the host.
    pub(crate) fn setuid(&self, path: &str) -> SetuidFacts {
        self.setuid.get(path).copied().unwrap_or(SetuidFacts { here: true, below: false })
    }

    /// What a volume lies on, as far as that is known before it is mounted.
    pub(crate) fn filesystem<'a>(&'a self, volume: &'a Volume) -> Option<&'a str> {
        if let Some(path) = volume.source.host_path() {
            return self.under(path);
        }
        let made_on = |kind: &str| self.kinds.get(&VolumeKind(kind.to_owned())).map(String::as_str);
        match &volume.source {
            VolumeSource::EmptyDir(Medium::Memory) => Some("tmpfs"),
            VolumeSource::EmptyDir(Medium::HugePages) => Some("hugetlbfs"),
            VolumeSource::Secret | VolumeSource::DownwardApi | VolumeSource::Projected => {
                made_on(&volume.source.kind().0).or(Some("tmpfs"))
            }
            VolumeSource::ConfigMap => made_on("configMap").or_else(|| made_on("emptyDir")),
            VolumeSource::Nfs => Some("nfs"),
            VolumeSource::Persistent(pv) if pv.source == PersistentSource::Nfs => Some("nfs"),
            VolumeSource::Persistent(pv) => pv.fs_type.as_deref().filter(|fs| !fs.is_empty()),
            VolumeSource::InTree(own) => own.volume.fs_type.as_deref().or_else(|| made_on(&own.kind)),
            other => made_on(&other.kind().0),
        }
    }

    pub(crate) fn idmappable(&self, volume: &Volume) -> Idmappable {
        let Some(filesystem) = self.filesystem(volume) else {
            return Idmappable::Unknown { filesystem: None };
        };
        let named = filesystem.to_owned();
        match self.idmap.get(filesystem) {
            Some(Support::Yes) => Idmappable::Yes { filesystem: named },
            Some(Support::No(cause)) => Idmappable::No { filesystem: named, cause: cause.clone() },
            None => Idmappable::Unknown { filesystem: Some(named) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(source: VolumeSource) -> Volume {
        Volume { name: "v".into(), field: "spec.volumes[0]".into(), source }
    }

    #[test]
    fn a_path_lies_on_what_its_nearest_known_parent_lies_on() {
        let paths = [("/", "ext4"), ("/srv", "xfs"), ("/srv/nfs", "nfs")];
        let paths = paths.map(|(p, f)| (p.to_owned(), f.to_owned())).into();
        let facts = FilesystemFacts { paths, ..Default::default() };
        let under = |path: &str| {
            facts.filesystem(&volume(VolumeSource::HostPath { path: path.into() })).map(str::to_owned)
        };
        assert_eq!(under("/srv/nfs/a").as_deref(), Some("nfs"));
        assert_eq!(under("/srv/nfsx").as_deref(), Some("xfs"));
        assert_eq!(under("/srv").as_deref(), Some("xfs"));
        assert_eq!(under("/etc").as_deref(), Some("ext4"));
        assert_eq!(FilesystemFacts::default().filesystem(&volume(VolumeSource::Image)), None);
    }

    #[test]
    fn a_misspelt_fact_in_a_file_is_refused() {
        let error = serde_json::from_str::<RuntimeFacts>(r#"{"handlerz":{}}"#).unwrap_err();
        assert!(error.to_string().contains("handlerz"));
    }
}
