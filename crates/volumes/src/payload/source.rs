use std::borrow::Cow;
use std::collections::BTreeMap;

use ids::ContainerId;

use super::downward::{DownwardFile, PodFields};
use super::error::{Problem, SourceName};
use super::{File, Mode, PayloadPath};

/// What a volume is made of. A configMap, secret or downwardAPI volume has one source, a projected one
/// as many as it lists; where two put a file in the same place, the later one's is there.
#[derive(Debug, Clone)]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// The mode of files that have none of their own.
    pub default_mode: Mode,
    /// What its files are made of.
    pub sources: Vec<Source>,
}

/// Where files come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A configMap's keys.
    ConfigMap(Object<ConfigMap>),
    /// A secret's keys.
    Secret(Object<Secret>),
    /// The pod's own fields.
    DownwardApi(Vec<DownwardFile>),
    /// A file that the caller has prepared, such as a token.
    Bytes(Bytes),
}

/// An object that a volume refers to.
#[derive(Debug, Clone)]
pub struct Object<T> {
    /// Its name.
    pub name: String,
    /// The object, if it exists.
    pub found: Option<T>,
    /// Which keys go where; all of them, each under its own name, if this is empty.
    pub items: Vec<KeyToPath>,
    /// What if it, or a key of it, is not there.
    pub need: Need,
}

/// What if something is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The pod cannot start.
    Required,
    /// The files are not there either.
    Optional,
}

/// A key and where it goes.
#[derive(Debug, Clone)]
pub struct KeyToPath {
    /// The key.
    pub key: String,
    /// Where it goes.
    pub path: String,
    /// Its mode, if not the volume's.
    pub mode: Option<Mode>,
}

/// What is in a configMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// data
    pub data: BTreeMap<String, String>,
    /// binaryData
    pub binary_data: BTreeMap<String, Vec<u8>>,
}

/// What is in a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// The object's UID; empty if it is not from an API server.
    pub uid: String,
    /// data, decoded
    pub data: BTreeMap<String, Vec<u8>>,
}

/// A file that is ready.
#[derive(Clone)]
pub struct Bytes {
    /// What it is, for messages: `serviceAccountToken`.
    pub what: String,
    /// Where it goes.
    pub path: String,
    /// What is in it.
    pub content: Vec<u8>,
    /// Its mode, if not the volume's.
    pub mode: Option<Mode>,
    /// The user that it belongs to, if not root.
    pub owner: Option<ContainerId>,
}

/// Secrets do not show in what is printed.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("keys", &self.data.keys()).finish()
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, path, content, mode, owner } = self;
        let length = content.len();
        write!(f, "Bytes {{ {what} at {path:?}, {length} bytes, mode {mode:?}, owner {owner:?} }}")
    }
}

pub(crate) type Files = Vec<(PayloadPath, File)>;

impl Source {
    pub(crate) fn name(&self) -> SourceName {
        match self {
            Self::ConfigMap(object) => SourceName::ConfigMap(object.name.clone()),
            Self::Secret(object) => SourceName::Secret(object.name.clone()),
            Self::DownwardApi(_) => SourceName::DownwardApi,
            Self::Bytes(bytes) => SourceName::Bytes(bytes.what.clone()),
        }
    }

    /// How many bytes it has in memory: those of the whole object, also if the volume names few of its keys.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = |data: &BTreeMap<String, String>| data.values().map(String::len).sum::<usize>();
        let bytes = |data: &BTreeMap<String, Vec<u8>>| data.values().map(Vec::len).sum::<usize>();
        match self {
            Self::ConfigMap(object) => {
                object.found.as_ref().map_or(0, |map| texts(&map.data) + bytes(&map.binary_data))
            }
            Self::Secret(object) => object.found.as_ref().map_or(0, |secret| bytes(&secret.data)),
            Self::DownwardApi(_) => 0,
            Self::Bytes(one) => one.content.len(),
        }
    }

    /// Its files, of at most `room` bytes. Only the contents of objects can be named more than once.
    pub(crate) fn files(&self, default_mode: Mode, pod: &PodFields, room: usize) -> Result<Files, Problem> {
        match self {
            Self::ConfigMap(object) => object_files(object, default_mode, room),
            Self::Secret(object) => object_files(object, default_mode, room),
            Self::DownwardApi(files) => files
                .iter()
                .map(|file| {
                    let path = located("the field", &file.path)?;
                    let mode = file.mode.unwrap_or(default_mode);
                    Ok((path, File { content: file.value.of(pod)?, mode, owner: None }))
                })
                .collect(),
            Self::Bytes(bytes) => {
                let path = located(&bytes.what, &bytes.path)?;
                let mode = bytes.mode.unwrap_or(default_mode);
                Ok(vec![(path, File { content: bytes.content.clone(), mode, owner: bytes.owner })])
            }
        }
    }
}

fn located(what: &str, path: &str) -> Result<PayloadPath, Problem> {
    PayloadPath::new(path).map_err(|why| Problem::Path { what: what.to_owned(), path: path.to_owned(), why })
}

/// What has keys.
pub(crate) trait Keyed {
    fn keys(&self) -> Vec<&str>;
    fn get(&self, key: &str) -> Option<Cow<'_, [u8]>>;
}

impl Keyed for ConfigMap {
    fn keys(&self) -> Vec<&str> {
        self.data.keys().chain(self.binary_data.keys()).map(String::as_str).collect()
    }

    fn get(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        let text = self.data.get(key).map(String::as_bytes);
        text.or_else(|| self.binary_data.get(key).map(Vec::as_slice)).map(Cow::Borrowed)
    }
}

impl Keyed for Secret {
    fn keys(&self) -> Vec<&str> {
        self.data.keys().map(String::as_str).collect()
    }

    fn get(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        self.data.get(key).map(|value| Cow::Borrowed(value.as_slice()))
    }
}

fn object_files<T: Keyed + Default>(
    from: &Object<T>,
    default_mode: Mode,
    mut room: usize,
) -> Result<Files, Problem> {
    let nothing = T::default();
    let object = match (&from.found, from.need) {
        (Some(object), _) => object,
        (None, Need::Optional) => &nothing,
        (None, Need::Required) => return Err(Problem::NoObject),
    };
    if from.items.is_empty() {
        let all = object.keys().into_iter().map(|key| file(object, key, key, default_mode));
        return all.filter_map(Result::transpose).collect();
    }
    let mut files = Files::new();
    for item in &from.items {
        let size = object.get(&item.key).map_or(0, |content| content.len());
        room = room.checked_sub(size).ok_or(Problem::TooLarge)?;
        match file(object, &item.key, &item.path, item.mode.unwrap_or(default_mode))? {
            Some(file) => files.push(file),
            None if from.need == Need::Optional => {}
            None => return Err(Problem::NoKey { key: item.key.clone() }),
        }
    }
    Ok(files)
}

fn file(
    object: &impl Keyed,
    key: &str,
    path: &str,
    mode: Mode,
) -> Result<Option<(PayloadPath, File)>, Problem> {
    let Some(content) = object.get(key) else { return Ok(None) };
    let path = located(&format!("key {key:?}"), path)?;
    Ok(Some((path, File { content: content.into_owned(), mode, owner: None })))
}
