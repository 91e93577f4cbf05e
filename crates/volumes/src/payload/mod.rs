//! What is in a configMap, secret, downwardAPI or projected volume, as a pure value.
//!
//! - [`Volume`]: what the pod asks for, with the objects that were found; [`Payload::of`] makes the
//!   files of it.
//! - [`PayloadPath`], [`Mode`]: where a file goes and what it may have, checked once.
//! - [`downward`]: the pod's own fields and amounts.
//!
//! Nothing here reads a file or a clock.

/// The pod's own fields and amounts, as files tell them.
pub mod downward;
mod error;
mod mode;
mod path;
mod quote;
mod source;

use std::collections::BTreeMap;

use ids::ContainerId;

pub use downward::PodFields;
pub use error::{Error, Problem, SourceName};
pub use mode::{Mode, ModeOutOfRange};
pub use path::{BadPath, PayloadPath};
pub use source::{Bytes, ConfigMap, KeyToPath, Need, Object, Secret, Source, Volume};

/// Maximum size of the files of a volume. They are in memory while they are written, and a small object can make any number
/// of files: an item of a volume may name a key that another one names.
pub const LARGEST: usize = 64 << 20;

/// The files of a volume. None of them lies in another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    files: BTreeMap<PayloadPath, File>,
}

/// One file.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// What is in it.
    pub content: Vec<u8>,
    /// Its mode, before an fsGroup adds to it.
    pub mode: Mode,
    /// The user that it belongs to, if not root.
    pub owner: Option<ContainerId>,
}

/// It may be a secret.
impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File {{ {} bytes, mode {}, owner {:?} }}", self.content.len(), self.mode, self.owner)
    }
}

impl Payload {
    /// What is in the volume of this pod.
    pub fn of(volume: &Volume, pod: &PodFields) -> Result<Self, Error> {
        let mut found: BTreeMap<PayloadPath, (File, SourceName)> = BTreeMap::new();
        let fault = |source_name, problem| Error {
            volume: volume.name.clone(),
            source_name,
            problem: Box::new(problem),
        };
        let mut room = LARGEST;
        for source in &volume.sources {
            let files = source.files(volume.default_mode, pod, room).map_err(|p| fault(source.name(), p))?;
            room = room.saturating_sub(files.iter().map(|(_, file)| file.content.len()).sum());
            found.extend(files.into_iter().map(|(path, file)| (path, (file, source.name()))));
        }
        for (path, (_, other)) in &found {
            let file = path.parents().find_map(|dir| found.get_key_value(&PayloadPath::new(dir).ok()?));
            if let Some((file, (_, source))) = file {
                let (file, below) = (file.to_string(), path.to_string());
                let problem = Problem::FileAndDirectory { file, below, other: other.clone() };
                return Err(fault(source.clone(), problem));
            }
        }
        Ok(Self { files: found.into_iter().map(|(path, (file, _))| (path, file)).collect() })
    }

    /// Its files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&PayloadPath, &File)> {
        self.files.iter()
    }

    /// How many bytes are in its files.
    #[must_use]
    pub fn size(&self) -> u64 {
        let lengths = self.files.values().map(|file| u64::try_from(file.content.len()).unwrap_or(u64::MAX));
        lengths.fold(0, u64::saturating_add)
    }
}
