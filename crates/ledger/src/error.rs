use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ids::allocator::{Adoption, LeaseError, Transition};
use ids::witness::WitnessError;
use selinux::CategoryPair;

use crate::holder::Holder;

/// Why an operation on the ledger failed. Unless a variant says otherwise, the ledger has not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The allocator has no block for the request.
    #[error("{holder}: {source}")]
    Lease {
        /// The holder of the request.
        holder: Holder,
        /// The allocator's reason.
        source: LeaseError,
    },
    /// The holder has a lease of another length.
    #[error("{holder} already holds a lease of {has} IDs, and the request is for {asked}")]
    OtherLength {
        /// The holder of the request.
        holder: Holder,
        /// The length of its lease.
        has: u32,
        /// The length of the request.
        asked: u32,
    },
    /// The holder has joined a shared lease.
    #[error("{holder} has joined the shared lease {shared}")]
    Joined {
        /// The holder of the request.
        holder: Holder,
        /// The shared lease.
        shared: Holder,
    },
    /// The holder has no lease, or has released it.
    #[error("{holder} holds no lease")]
    NotHeld {
        /// The holder of the request.
        holder: Holder,
    },
    /// The request is for a shared lease and the name belongs to one that is not shared, or the other way round.
    #[error("{holder} is the name of a lease that is {}shared", if *shared { "" } else { "not " })]
    OtherSort {
        /// The name.
        holder: Holder,
        /// Whether the lease with that name is shared.
        shared: bool,
    },
    /// The shared lease still has members.
    #[error("the shared lease {shared} still has {members} members, {first} among them")]
    HasMembers {
        /// The shared lease.
        shared: Holder,
        /// How many are in it.
        members: usize,
        /// One of them.
        first: Holder,
    },
    /// Blocks that another component has allocated, such as a kubelet, cannot be adopted.
    #[error("{holder}: {source}{}", with.as_ref().map(|w| format!(", that of {w}")).unwrap_or_default())]
    Adoption {
        /// The holder of the blocks.
        holder: Holder,
        /// The holder of the lease that overlaps, if it has a name.
        with: Option<Holder>,
        /// The allocator's reason.
        source: Adoption,
    },
    /// All category pairs are allocated.
    #[error(
        "{holder} cannot have an SELinux category pair of its own: all {} are allocated",
        CategoryPair::COUNT
    )]
    NoPair {
        /// The holder of the request.
        holder: Holder,
    },
    /// The category pair that a manifest names was allocated to another sandbox or container, which has it alone.
    #[error("{holder} cannot have the SELinux categories {pair}: they are allocated to {by}")]
    PairTaken {
        /// The holder of the request.
        holder: Holder,
        /// The pair.
        pair: CategoryPair,
        /// The sandbox or container that has it.
        by: Holder,
    },
    /// The holder has another category pair already.
    #[error("{holder} already has the SELinux categories {has}")]
    HasPair {
        /// The holder of the request.
        holder: Holder,
        /// The pair that it has.
        has: CategoryPair,
    },
    /// A path that cannot be recorded with a lease.
    #[error("{} cannot be recorded with a lease: {why}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No pinned block starts at the given host ID.
    #[error("no pinned block starts at {base}")]
    NotPinned {
        /// The first host ID that was named.
        base: u32,
    },
    /// A lease would skip a state of its life cycle. This is a bug in wardlet.
    #[error("internal: {0}")]
    Transition(#[from] Transition),
    /// The host scan failed, so it is unknown which IDs are in use.
    #[error("{0}")]
    Witness(Arc<WitnessError>),
    /// Another process has held the ledger's lock for longer than [`Options::patience`](crate::Options).
    #[error("the ledger {path} has been locked for {}s{}", waited.as_secs(), by.as_ref().map(|b| format!(" by {b}")).unwrap_or_default())]
    Stuck {
        /// The lock file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
        /// The process that holds the lock, if it is known.
        by: Option<String>,
    },
    /// The disk is full; nothing was changed.
    #[error("no space left on the disk of {path}: nothing was changed")]
    DiskFull {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// A newer wardlet wrote this ledger.
    #[error("{path} is of version {found}; this wardlet knows versions up to {known}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this wardlet reads.
        known: u32,
    },
    /// A write found the database damaged. The ledger was rebuilt from its copy, without the change.
    #[error("{path} was damaged ({why}) and has been rebuilt: nothing was changed")]
    Rebuilt {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        why: String,
    },
    /// SQLite failed.
    #[error("{what} {path}: {source}")]
    Storage {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: Arc<rusqlite::Error>,
    },
    /// A system call on a file failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: Arc<std::io::Error>,
    },
}

impl LedgerError {
    /// What the user can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Lease { source: LeaseError::Exhausted(s), .. }
                if s.counts.draining + s.counts.pinned > 0 =>
            {
                "`wardlet ids gc` frees vacant blocks and reports what keeps the others in use".to_owned()
            }
            Self::Lease { source: LeaseError::Exhausted(_), .. } => {
                "give the pool more ranges (userNamespaces.pool, or subuid and subgid), or stop pods"
                    .to_owned()
            }
            Self::Lease { source: LeaseError::OverCap { .. }, .. } => {
                "raise or remove userNamespaces.maxPods".to_owned()
            }
            Self::Lease { source: LeaseError::Size { below, above, .. }, .. } => {
                if below == above {
                    format!("ask for {below}")
                } else {
                    format!("ask for {below} or {above}")
                }
            }
            Self::Lease { source: LeaseError::TooLarge { largest, .. }, .. } => {
                format!("ask for {largest} or less")
            }
            Self::OtherLength { holder, .. } | Self::Joined { holder, .. } => {
                format!("`wardlet ids release {holder}` first")
            }
            Self::NoPair { .. } => {
                "`wardlet ids gc` frees pairs of removed sandboxes; otherwise remove pods, or name a level in \
                 seLinuxOptions.level"
                    .to_owned()
            }
            Self::PairTaken { by, .. } => format!(
                "name another level in seLinuxOptions.level, or none to have a pair allocated; or remove {by} first"
            ),
            Self::HasPair { .. } => "remove it, and create it again with the other level".to_owned(),
            Self::OtherSort { .. } => "choose another name".to_owned(),
            Self::HasMembers { .. } => "release its members first".to_owned(),
            Self::NotPinned { .. } => "`wardlet ids list` shows the pinned blocks".to_owned(),
            Self::Witness(_) => "run as root on the host itself, with /proc of the host".to_owned(),
            Self::Stuck { .. } => "find out why that process does not finish; its lock ends with it".to_owned(),
            Self::DiskFull { path } => format!("free some space on the disk of {}", path.display()),
            Self::Rebuilt { .. } => "try again; `wardlet ids list` shows what is pinned".to_owned(),
            Self::TooNew { .. } => "use the newer wardlet, or move the state directory aside".to_owned(),
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "run as root, or choose another --state-dir".to_owned()
            }
            _ => return None,
        })
    }

    pub(crate) fn io(what: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::StorageFull {
            return Self::DiskFull { path: path.to_owned() };
        }
        Self::Io { what, path: path.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn storage(what: &'static str, path: &std::path::Path, source: rusqlite::Error) -> Self {
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return Self::DiskFull { path: path.to_owned() };
        }
        Self::Storage { what, path: path.to_owned(), source: Arc::new(source) }
    }
}

impl From<durable::Error> for LedgerError {
    fn from(error: durable::Error) -> Self {
        match error {
            durable::Error::Io { action, path, cause } => Self::io(action, &path, cause),
            durable::Error::Locked { path, waited, holder } => {
                Self::Stuck { path, waited, by: holder.map(|holder| holder.to_string()) }
            }
            durable::Error::Damaged { ref path, .. }
            | durable::Error::Version { ref path, .. }
            | durable::Error::TooLarge { ref path, .. }
            | durable::Error::Untrusted { ref path, .. } => {
                Self::io("use", path, std::io::Error::other(error.to_string()))
            }
        }
    }
}
