use ids::{IdKind, IdMapping};
use serde::Serialize;

use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::layer::highest::{Highest, Owned};

/// One image of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The digest of its configuration.
    pub id: Digest,
    /// Its names.
    pub names: Vec<String>,
    /// `repository@digest` of everything that it was pulled by.
    pub digests: Vec<String>,
    /// `linux/amd64`.
    pub platform: String,
    /// The size of its layers on disk, shared ones included.
    pub bytes: u64,
    /// Chain IDs of its layers, the lowest first.
    pub layers: Vec<Digest>,
    /// The highest user and group IDs of its files.
    pub highest: Highest,
    /// Its creation time, as in its configuration.
    pub created: Option<String>,
    /// Its run configuration.
    pub config: ImageConfig,
    /// The holders: containers that run from it.
    pub users: Vec<String>,
}

impl Image {
    /// Its preferred name.
    #[must_use]
    pub fn called(&self) -> &str {
        let name = self.names.first().or(self.digests.first());
        name.map_or_else(|| self.id.as_str(), String::as_str)
    }

    /// Whether all its files have an owner in a user namespace with these maps.
    ///
    /// # Errors
    /// With the file that has none.
    pub fn fits(&self, uids: &[IdMapping], gids: &[IdMapping]) -> Result<()> {
        let one = |kind: IdKind, owned: &Owned, lines: &[IdMapping]| {
            let id = u64::from(owned.id);
            let holds = |line: &IdMapping| {
                let first = u64::from(line.container());
                (first..first + line.length()).contains(&id)
            };
            if lines.iter().any(holds) {
                return Ok(());
            }
            let length = lines.iter().map(|line| line.length()).sum();
            let (image, file) = (self.called().to_owned(), owned.file.clone());
            Err(Error::BeyondMapping { image, file, kind, id: owned.id, length })
        };
        one(IdKind::Uid, &self.highest.uid, uids)?;
        one(IdKind::Gid, &self.highest.gid, gids)
    }
}
