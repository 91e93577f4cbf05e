//! The node's own credentials: the docker configuration that an administrator has put on it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use durable::read;
use tokio::time::Instant;
use tracing::warn;
use types::{DockerAuth, DockerConfig};

use crate::images::scope::Scope;

/// How long the configuration is kept before it is read again, as by a kubelet.
const KEPT: Duration = Duration::from_secs(300);
/// No configuration is nearly as large.
const LARGEST: u64 = 1 << 20;

/// An entry of a docker configuration.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) scope: Scope,
    pub(crate) auth: DockerAuth,
}

/// The entries of a docker configuration.
pub(crate) fn entries(auths: impl IntoIterator<Item = (String, DockerAuth)>) -> Vec<Entry> {
    auths.into_iter().map(|(address, auth)| Entry { scope: Scope::of_address(&address), auth }).collect()
}

/// Reads the node's configuration.
#[derive(Debug, Default)]
pub(crate) struct NodeConfig {
    files: Vec<File>,
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    entries: Vec<Entry>,
    until: Instant,
}

/// A file, and its form.
#[derive(Debug)]
enum File {
    /// `config.json`
    Config(PathBuf),
    /// `.dockercfg`, whose keys are the registries
    Old(PathBuf),
}

impl NodeConfig {
    /// Searches in the kubelet's directory, in that of the user, and in the root directory: the first file counts.
    pub(crate) fn new(root_dir: &Path) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let at = |dir: &Path, file: &str| dir.join(file);
        let mut files = vec![File::Config(at(root_dir, "config.json"))];
        files.extend(home.iter().map(|home| File::Config(at(home, ".docker/config.json"))));
        files.push(File::Config("/.docker/config.json".into()));
        files.push(File::Old(at(root_dir, ".dockercfg")));
        files.extend(home.iter().map(|home| File::Old(at(home, ".dockercfg"))));
        files.push(File::Old("/.dockercfg".into()));
        Self { files, known: Mutex::default() }
    }

    /// The entries of the first file that can be read.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(known) = known.as_ref().filter(|known| known.until > now) {
            return known.entries.clone();
        }
        let entries = self.files.iter().find_map(File::entries).unwrap_or_default();
        *known = Some(Known { entries: entries.clone(), until: now + KEPT });
        entries
    }
}

impl File {
    fn entries(&self) -> Option<Vec<Entry>> {
        let (Self::Config(path) | Self::Old(path)) = self;
        let text = match read(path, LARGEST) {
            Ok(text) => text?,
            Err(error) => {
                warn!("credentials of the node are not used: {error}");
                return None;
            }
        };
        let auths = match self {
            Self::Config(_) => serde_json::from_slice(&text).map(|config: DockerConfig| config.auths),
            Self::Old(_) => serde_json::from_slice(&text),
        };
        match auths {
            Ok(auths) => Some(entries(auths)),
            // The parser's message may quote a password.
            Err(_) => {
                warn!("credentials of the node are not used: {} is no docker configuration", path.display());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_can_be_read_counts() {
        let dir = tempfile::tempdir().unwrap();
        let files =
            || vec![File::Config(dir.path().join("config.json")), File::Old(dir.path().join(".dockercfg"))];
        let users = || {
            let config = NodeConfig { files: files(), known: Mutex::default() };
            config.entries().into_iter().map(|entry| entry.auth.username).collect::<Vec<_>>()
        };
        assert!(users().is_empty());
        std::fs::write(dir.path().join(".dockercfg"), r#"{"quay.io":{"username":"old"}}"#).unwrap();
        assert_eq!(users(), ["old"]);
        std::fs::write(dir.path().join("config.json"), r#"{"auths":{"quay.io":{"username":"new"}}}"#)
            .unwrap();
        assert_eq!(users(), ["new"]);
        std::fs::write(dir.path().join("config.json"), "{").unwrap();
        assert_eq!(users(), ["old"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_configuration_is_read_again_after_five_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let config = NodeConfig { files: vec![File::Config(dir.path().join("c"))], known: Mutex::default() };
        assert!(config.entries().is_empty());
        std::fs::write(dir.path().join("c"), r#"{"auths":{"quay.io":{}}}"#).unwrap();
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(config.entries().is_empty());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(config.entries().len(), 1);
    }
}
