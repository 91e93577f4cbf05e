use std::path::PathBuf;

use ids::pool::PoolError;
use ledger::LedgerError;

use crate::subid::SourceError;

/// Why something about a node cannot be found out or done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration, or the pool that it gives, cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The ledger cannot be opened or used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Another user can change the state directory.
    #[error("the state directory cannot be used: {0}")]
    StateDir(durable::Error),
    /// A file of facts cannot be read.
    #[error("{}: cannot be read: {cause}", file.display())]
    FactsUnreadable {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// A file of facts holds something else.
    #[error("{}: {cause}", file.display())]
    FactsInvalid {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, with line and column.
        cause: String,
    },
}

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(e) => e.hint(),
            Self::Ledger(e) => e.hint(),
            Self::StateDir(e) => e.hint().map(str::to_owned),
            Self::FactsUnreadable { .. } | Self::FactsInvalid { .. } => {
                Some("`wardlet explain -o json` shows a node's facts under \"facts\"".to_owned())
            }
        }
    }
}

/// Why a node's settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is not there, or not for us.
    #[error("cannot read the configuration {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The file is no YAML.
    #[error("{}: {cause}", file.display())]
    Yaml {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The file is YAML, but no map.
    #[error("{}: it is no map of settings", file.display())]
    NoMap {
        /// The file.
        file: PathBuf,
    },
    /// A key that is no setting.
    #[error("{}: {key}: there is no such setting", file.display())]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The key's path.
        key: String,
        /// What may have been meant.
        meant: String,
    },
    /// A setting that cannot be as it is written.
    #[error("{}: {field}: {cause}", file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The setting's path.
        field: String,
        /// Why not.
        cause: String,
        /// What to write.
        way_out: String,
    },
    /// The defaults themselves cannot be written down: a defect of ours.
    #[error("the default settings cannot be written down: {0}")]
    Defaults(serde_json::Error),
    /// The kernel does not say which boot this is.
    #[error("cannot read this boot's ID in {}: {cause}", file.display())]
    Boot {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// subuid and subgid cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No pool can be made of what is configured.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl SettingsError {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { .. } => {
                "name a readable file (--config, or WARDLET_CONFIG for wardlet-oci), or leave it out for the defaults"
                    .to_owned()
            }
            Self::Yaml { .. } => "write it as YAML, each key once".to_owned(),
            Self::NoMap { .. } => "`wardlet config` shows what a whole file looks like".to_owned(),
            Self::Unknown { meant, .. } => meant.clone(),
            Self::Wrong { way_out, .. } => way_out.clone(),
            Self::Boot { .. } => {
                "mount the host's proc filesystem there, or choose another --host-root".to_owned()
            }
            Self::Source(e) => e.hint(),
            Self::Pool(e) => e.hint(),
            Self::Defaults(_) => return None,
        })
    }
}
