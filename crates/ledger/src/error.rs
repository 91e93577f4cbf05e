use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ids::allocator::{Adoption, LeaseError, Transition};
use ids::witness::WitnessError;

use crate::holder::Holder;

/// What can go wrong between a request and the disk.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The lease cannot be given.
    #[error("{holder}: {source}")]
    Lease {
        /// Who asked.
        holder: Holder,
        /// Why not.
        source: LeaseError,
    },
    /// The holder has a lease of another length.
    #[error("{holder} already holds {has} IDs and asks for {asked}")]
    OtherLength {
        /// Who asked.
        holder: Holder,
        /// The length it has.
        has: u32,
        /// The length it asked for.
        asked: u32,
    },
    /// The holder has joined a shared lease.
    #[error("{holder} has joined the shared lease {shared}")]
    Joined {
        /// Who asked.
        holder: Holder,
        /// The shared lease.
        shared: Holder,
    },
    /// The holder has no lease, or gave it back.
    #[error("{holder} holds no lease")]
    NotHeld {
        /// Who asked.
        holder: Holder,
    },
    /// The name is that of a lease of the other sort.
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
    /// Blocks that exist elsewhere cannot be entered.
    #[error("{holder}: {source}{}", with.as_ref().map(|w| format!(", that of {w}")).unwrap_or_default())]
    Adoption {
        /// Whose blocks they are.
        holder: Holder,
        /// Who holds what is in the way, where it has a name.
        with: Option<Holder>,
        /// Why not.
        source: Adoption,
    },
    /// A place that cannot be written down.
    #[error("{} cannot be recorded with a lease: {why}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pinned block was asked for that is not there.
    #[error("no pinned block starts at {base}")]
    NotPinned {
        /// The first host ID that was named.
        base: u32,
    },
    /// The way from free to free was left: a defect of ours.
    #[error("internal: {0}")]
    Transition(#[from] Transition),
    /// Nobody can say who uses which IDs.
    #[error("{0}")]
    Witness(Arc<WitnessError>),
    /// Another process kept the ledger too long.
    #[error("the ledger {path} has been locked for {}s{}", waited.as_secs(), by.as_ref().map(|b| format!(" by {b}")).unwrap_or_default())]
    Stuck {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who has it.
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
        /// The newest we know.
        known: u32,
    },
    /// It was found to be damaged when it was written to.
    #[error("{path} was damaged ({why}) and has been rebuilt: nothing was changed")]
    Rebuilt {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// SQLite said no.
    #[error("{what} {path}: {source}")]
    Storage {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<rusqlite::Error>,
    },
    /// The file system said no.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: Arc<std::io::Error>,
    },
}

impl LedgerError {
    /// The way out, where we know one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Lease { source: LeaseError::Exhausted(s), .. }
                if s.counts.draining + s.counts.pinned > 0 =>
            {
                "`wardlet ids gc` frees what is vacant and says what keeps the rest".to_owned()
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
            Self::OtherSort { .. } => "choose another name".to_owned(),
            Self::HasMembers { .. } => "release its members first".to_owned(),
            Self::NotPinned { .. } => "`wardlet ids list` shows the pinned blocks".to_owned(),
            Self::Witness(_) => "run as root on the host itself, with /proc of the host".to_owned(),
            Self::Stuck { .. } => "see what that process is doing; the lock goes with it".to_owned(),
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
            | durable::Error::TooLarge { ref path, .. } => {
                Self::io("use", path, std::io::Error::other(error.to_string()))
            }
        }
    }
}
