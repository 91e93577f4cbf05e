//! The file that says how registries are reached and what an image may take.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::limits::{AbsoluteNames, Limits};
use crate::pull::remote::{Registry, Remote, Scheme};

/// Why the file of registries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause that the system gave.
        cause: io::Error,
    },
    /// The file is not YAML, or holds what is no setting.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        why: String,
    },
}

impl RegistriesError {
    /// What an administrator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => {
                "name a readable file with --registries, or leave it out for the defaults"
            }
            Self::Invalid { .. } => "docs/how-to/images-without-a-registry.md shows what it may hold",
        }
    }
}

/// How registries are reached and what an image may take: `/etc/wardlet/registries.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Registries {
    registries: BTreeMap<String, Settings>,
    limits: LimitSettings,
    absolute_names: Names,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    plain_http: bool,
    ca: Vec<PathBuf>,
    mirrors: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LimitSettings {
    layer_bytes: Option<u64>,
    stream_bytes: Option<u64>,
    ratio: Option<u64>,
    entries: Option<u64>,
    layers: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Names {
    #[default]
    Refused,
    InImage,
}

impl Registries {
    /// Reads the file `named`; without one, the file `default`, which may be missing.
    ///
    /// # Errors
    /// If the file cannot be read, or holds what is no setting.
    pub fn load(named: Option<&Path>, default: &Path) -> Result<Self, RegistriesError> {
        let file = named.unwrap_or(default);
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => return Ok(Self::default()),
            Err(cause) => return Err(RegistriesError::Unreadable { path: file.to_owned(), cause }),
        };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let wrong = |why: String| RegistriesError::Invalid { path: file.to_owned(), why };
        // By way of a tree: typed at once, a quoted 'yes' would be taken for true.
        let tree: Value =
            serde_saphyr::from_str(&text).map_err(|e| wrong(e.without_snippet().to_string()))?;
        if let Some(place) = list_for_map(&tree) {
            return Err(wrong(format!("{place} is no map of settings")));
        }
        Self::deserialize(&tree).map_err(|e| wrong(e.to_string()))
    }

    /// How each registry of the file is reached; credentials come from elsewhere.
    #[must_use]
    pub fn remote(&self) -> Remote {
        let registry = |settings: &Settings| Registry {
            scheme: if settings.plain_http { Scheme::PlainHttp } else { Scheme::Https },
            ca: settings.ca.clone(),
            mirrors: settings.mirrors.clone(),
            credentials: None,
        };
        let registries = self.registries.iter();
        Remote { registries: registries.map(|(host, settings)| (host.clone(), registry(settings))).collect() }
    }

    /// The limits of the file; what it leaves out is the default.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let (set, defaults) = (&self.limits, Limits::default());
        Limits {
            layer_bytes: set.layer_bytes.unwrap_or(defaults.layer_bytes),
            stream_bytes: set.stream_bytes.unwrap_or(defaults.stream_bytes),
            ratio: set.ratio.unwrap_or(defaults.ratio),
            entries: set.entries.unwrap_or(defaults.entries),
            layers: set.layers.unwrap_or(defaults.layers),
            absolute_names: match self.absolute_names {
                Names::Refused => AbsoluteNames::Refused,
                Names::InImage => AbsoluteNames::InImage,
            },
            ..defaults
        }
    }
}

/// Where a list stands for settings: their values would be taken in the order of our fields.
fn list_for_map(tree: &Value) -> Option<&str> {
    let registries = tree.get("registries").and_then(Value::as_object);
    let named = registries.into_iter().flatten().map(|(host, settings)| (host.as_str(), settings));
    let limits = tree.get("limits").map(|limits| ("limits", limits));
    let all = [("it", tree)].into_iter().chain(limits).chain(named);
    all.into_iter().find(|(_, value)| value.is_array()).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Registries, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("registries.yaml");
        std::fs::write(&file, text).unwrap();
        Registries::load(Some(&file), Path::new("/nowhere")).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_tls_and_the_default_limits() {
        for text in ["", "registries:\n  a.example: {}\n"] {
            let read = parsed(text).unwrap();
            assert_eq!(read.limits(), Limits::default());
            assert!(read.remote().registries.values().all(|registry| registry.scheme == Scheme::Https));
        }
    }

    #[test]
    fn everything_can_be_said_once_and_nothing_else() {
        let text = "registries:\n  docker.io:\n    mirrors: [near:5000]\n  near:5000:\n    plainHttp: true\n    \
                    ca: [/etc/ca.pem]\nlimits: {ratio: 7, entries: 9}\nabsoluteNames: inImage\n";
        let read = parsed(text).unwrap();
        let remote = read.remote();
        assert_eq!(remote.registries["docker.io"].mirrors, ["near:5000"]);
        assert_eq!(remote.registries["near:5000"].scheme, Scheme::PlainHttp);
        assert_eq!((read.limits().ratio, read.limits().entries), (7, 9));
        assert_eq!(read.limits().absolute_names, AbsoluteNames::InImage);
        for wrong in [
            "plainHTTP: true",
            "registries: {a: {plainHttp: 'yes'}}",
            "limits: {ratio: -1}",
            "[]",
            "limits: [1]",
            "registries: {a: [true]}",
        ] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.contains("registries.yaml"), "{error}");
        }
    }
}
