use ids::IdKind;

/// What is wrong with an entry of a layer or of an archive, or with a layer as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name begins at the root of the file system.
    #[error("its name is absolute")]
    Absolute,
    /// The name leaves the image.
    #[error("its name has `..` in it")]
    Climbs,
    /// The name has a byte that no file name can have, or none at all.
    #[error("no file can have this name")]
    Name,
    /// The name is longer than the kernel takes.
    #[error("its name is too long")]
    TooLong,
    /// A symbolic link on the way leads out of the image.
    #[error("the symbolic link {link:?} on the way leads to {to:?}, out of the image")]
    LinkLeaves {
        /// The link.
        link: String,
        /// What it says.
        to: String,
    },
    /// Symbolic links lead to each other.
    #[error("too many symbolic links on the way")]
    LinkLoop,
    /// What should be a directory is none.
    #[error("{parent:?} on the way is no directory")]
    NoDirectory {
        /// It.
        parent: String,
    },
    /// A hard link to what is not in this layer, not yet, or cannot be linked to.
    #[error("a hard link to {target:?}, which {why}")]
    HardLink {
        /// What it is a link to.
        target: String,
        /// Why it cannot be.
        why: &'static str,
    },
    /// A device that is not among the harmless ones.
    #[error("the {kind} device {major}:{minor}")]
    Device {
        /// `character` or `block`.
        kind: &'static str,
        /// The first number.
        major: u32,
        /// The second number.
        minor: u32,
    },
    /// A whiteout of nothing, of the directory itself or of its parent.
    #[error("a whiteout that names no file")]
    Whiteout,
    /// An extended attribute that only the kernel may set.
    #[error("the extended attribute {name}, which would steer the kernel's overlay")]
    Xattr {
        /// Its name.
        name: String,
    },
    /// An owner that cannot be.
    #[error("{kind} {value} cannot be")]
    Id {
        /// User or group.
        kind: IdKind,
        /// What the entry has.
        value: u64,
    },
    /// A kind of entry that no image has.
    #[error("entries of type {0:?} are not known")]
    Type(char),
    /// A sparse file in a form that is not read.
    #[error("a sparse file of a form that is not read (GNU sparse in PAX headers)")]
    SparseForm,
    /// The archive ends inside the entry.
    #[error("it ends after {found} of {expected} bytes")]
    Truncated {
        /// The size in its header.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// It does not read as what it should be.
    #[error("unreadable: {0}")]
    Unreadable(String),
    /// More than fits the limit.
    #[error("more than {limit} {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
    /// The kernel refused it.
    #[error("cannot {what}: {why}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        why: String,
    },
}

impl Fault {
    /// The way out, where we know one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Absolute => {
                "set `absoluteNames: inImage` in registries.yaml if the image's builder is known to write such names"
            }
            Self::Climbs | Self::LinkLeaves { .. } => {
                "no image needs this to work: it may be an attack, look at who made it"
            }
            Self::Device { .. } => {
                "build the image without it; containers get their devices from the runtime"
            }
            Self::Limit { .. } => "if the image is what it should be, raise `limits` in registries.yaml",
            Self::SparseForm => "build the layer with `tar --format=gnu`, or without --sparse",
            Self::HardLink { .. } => {
                "the layer's entries may be in another order than its builder wrote them"
            }
            Self::Truncated { .. } => "it was damaged on the way: fetch it again",
            Self::Refused { why, .. } if why.contains("not permitted") => {
                "run as root: layers are unpacked with the owners that their files have"
            }
            _ => return None,
        })
    }

    pub(crate) fn refused(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Refused { what, why: errno.to_string() }
    }
}
