use ids::IdKind;

/// Why an entry of a layer or of an archive, or a layer as a whole, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The name is absolute.
    #[error("its name is absolute")]
    Absolute,
    /// The name has a `..` that leaves the image.
    #[error("its name has `..` in it")]
    Climbs,
    /// The name is empty or has an invalid byte.
    #[error("no file can have this name")]
    Name,
    /// The name is longer than the kernel allows.
    #[error("its name is too long")]
    TooLong,
    /// A symbolic link in the path leads out of the image.
    #[error("the symbolic link {link:?} on the way leads to {to:?}, out of the image")]
    LinkLeaves {
        /// The link.
        link: String,
        /// Its target.
        to: String,
    },
    /// Symbolic links form a loop.
    #[error("too many symbolic links on the way")]
    LinkLoop,
    /// A parent is not a directory.
    #[error("{parent:?} in its path is not a directory")]
    NoDirectory {
        /// The parent.
        parent: String,
    },
    /// A hard link to a file that is not in this layer, not yet, or cannot be linked to.
    #[error("a hard link to {target:?}, which {why}")]
    HardLink {
        /// Its target.
        target: String,
        /// Why it cannot be linked to.
        why: &'static str,
    },
    /// A device that is not allowed.
    #[error("the {kind} device {major}:{minor}")]
    Device {
        /// `character` or `block`.
        kind: &'static str,
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    /// A whiteout of nothing, of the directory itself or of its parent.
    #[error("a whiteout that names no file")]
    Whiteout,
    /// An extended attribute that is reserved for the kernel.
    #[error("the extended attribute {name}, which would steer the kernel's overlay")]
    Xattr {
        /// Its name.
        name: String,
    },
    /// An invalid owner.
    #[error("{kind} {value} cannot be")]
    Id {
        /// User or group.
        kind: IdKind,
        /// The value of the entry.
        value: u64,
    },
    /// An unknown type of entry.
    #[error("entries of type {0:?} are not known")]
    Type(char),
    /// An unsupported sparse format.
    #[error("a sparse file of a form that is not read (GNU sparse in PAX headers)")]
    SparseForm,
    /// The archive ends inside the entry.
    #[error("it ends after {found} of {expected} bytes")]
    Truncated {
        /// The size in its header.
        expected: u64,
        /// The actual size.
        found: u64,
    },
    /// It cannot be parsed.
    #[error("unreadable: {0}")]
    Unreadable(String),
    /// A limit is exceeded.
    #[error("more than {limit} {what}")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The kernel refused it.
    #[error("cannot {what}: {why}")]
    Refused {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        why: String,
    },
}

impl Fault {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Absolute => {
                "set `absoluteNames: inImage` in registries.yaml if the image's builder is known to write such names"
            }
            Self::Climbs | Self::LinkLeaves { .. } => {
                "no image needs this to work, and it may be an attack: check where the image comes from"
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
