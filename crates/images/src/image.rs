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
    /// What it is called now.
    pub names: Vec<String>,
    /// `repository@digest` for everything it was pulled by.
    pub digests: Vec<String>,
    /// `linux/amd64`.
    pub platform: String,
    /// What its layers take on disk, those shared with others included.
    pub bytes: u64,
    /// Chain IDs of its layers, the lowest first.
    pub layers: Vec<Digest>,
    /// The highest user and group that a file of it belongs to.
    pub highest: Highest,
    /// When it was made, as it says.
    pub created: Option<String>,
    /// How it is run.
    pub config: ImageConfig,
    /// Who runs from it.
    pub users: Vec<String>,
}

impl Image {
    /// How it is called best.
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
