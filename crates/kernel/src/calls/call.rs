use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::mount::Flags;
use crate::{Access, Attributes, Filesystem, IdMaps, Propagation, Submounts, Unmount};

/// One call of a [`super::Kernel`], with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Call {
    /// A user namespace was requested.
    UserNamespace(IdMaps),
    /// A user namespace was released.
    ForgetUserNamespace(IdMaps),
    /// A mount was cloned.
    Clone {
        /// The source.
        source: PathBuf,
        /// Whether with its submounts.
        submounts: Submounts,
    },
    /// A detached mount was changed.
    Set {
        /// The mount, as text.
        what: String,
        /// The change.
        change: Change,
    },
    /// A filesystem was created.
    Make(Filesystem),
    /// An overlay was created.
    Overlay {
        /// The number of its lower layers.
        lowers: usize,
        /// Its upper layer.
        upper: PathBuf,
    },
    /// A detached mount was attached.
    Attach {
        /// The mount, as text.
        what: String,
        /// The mount point.
        target: PathBuf,
    },
    /// A mount was unmounted.
    Unmount {
        /// The mount point.
        point: PathBuf,
        /// Now or lazily.
        how: Unmount,
    },
}

/// [`Attributes`], free of descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The map that owners are translated by.
    pub idmap: Option<IdMaps>,
    /// Whether it becomes read-only.
    pub access: Access,
    /// Whether those below are changed as well.
    pub submounts: Submounts,
    /// How it is to share mounts.
    pub propagation: Option<Propagation>,
    /// What it forbids.
    pub flags: Flags,
}

impl From<&Attributes<'_>> for Change {
    fn from(attributes: &Attributes<'_>) -> Self {
        Self {
            idmap: attributes.idmap.map(|userns| userns.maps().clone()),
            access: attributes.access,
            submounts: attributes.submounts,
            propagation: attributes.propagation,
            flags: attributes.flags,
        }
    }
}

/// `idmap to 0:65536:65536, ro, slave, nosuid, with mounts below`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idmap = self.idmap.iter().map(|maps| format!("idmap to {maps}"));
        let read_only = (self.access == Access::ReadOnly).then(|| self.access.to_string());
        let words = idmap
            .chain(read_only)
            .chain(self.propagation.map(|propagation| propagation.to_string()))
            .chain(self.flags.names().map(str::to_owned))
            .chain((self.submounts == Submounts::Included).then(|| "with mounts below".to_owned()));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserNamespace(maps) => write!(f, "user namespace {maps}"),
            Self::ForgetUserNamespace(maps) => write!(f, "forget user namespace {maps}"),
            Self::Clone { source, submounts: Submounts::Without } => write!(f, "clone {}", source.display()),
            Self::Clone { source, submounts: Submounts::Included } => {
                write!(f, "clone {} with mounts below", source.display())
            }
            Self::Set { what, change } => write!(f, "set {what}: {change}"),
            Self::Make(filesystem) => match &filesystem.context {
                Some(context) => write!(f, "make a {} with context {context}", filesystem.kind.name()),
                None => write!(f, "make a {}", filesystem.kind.name()),
            },
            Self::Overlay { lowers, upper } => write!(f, "overlay {lowers} layers under {}", upper.display()),
            Self::Attach { what, target } => write!(f, "attach {what} -> {}", target.display()),
            Self::Unmount { point, how: Unmount::Now } => write!(f, "unmount {}", point.display()),
            Self::Unmount { point, how: Unmount::Lazy } => write!(f, "unmount {} lazily", point.display()),
        }
    }
}
