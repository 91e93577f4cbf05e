//! Credentials from a file as docker writes it.

use std::io;
use std::path::{Path, PathBuf};

use types::{DockerConfig, registry_of};

use crate::pull::remote::{Credentials, NotAnAuth};

/// Why a file of credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("{}: cannot read it: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause that the system gave.
        cause: io::Error,
    },
    /// The file is not what docker writes.
    #[error("{}: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// An entry holds no credentials that can be decoded. They are not shown.
    #[error("{}: auths.{key}: {cause}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The key of the entry.
        key: String,
        /// What is wrong with it.
        cause: NotAnAuth,
    },
}

/// The credentials of a file like `~/.docker/config.json`, by the host of their registry. Entries without credentials,
/// such as those of a credential helper, are left out.
///
/// # Errors
/// If the file cannot be read, is not JSON of that form, or an entry cannot be decoded.
pub fn read_credentials(file: &Path) -> Result<Vec<(String, Credentials)>, CredentialsError> {
    let path = || file.to_owned();
    let text = std::fs::read(file).map_err(|cause| CredentialsError::Unreadable { path: path(), cause })?;
    let found: DockerConfig =
        serde_json::from_slice(&text).map_err(|cause| CredentialsError::Json { path: path(), cause })?;
    let mut all = Vec::new();
    for (key, auth) in found.auths {
        let host = registry_of(&key).0.to_owned();
        let failed = |cause| CredentialsError::Entry { path: path(), key, cause };
        all.extend(Credentials::of(&auth).map_err(failed)?.map(|credentials| (host, credentials)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_as_docker_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let text = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"dTpwOnE="},"quay.io":{"identitytoken":"t"},
                       "helper.io":{}},"credsStore":"x"}"#;
        std::fs::write(&file, text).unwrap();
        let found = read_credentials(&file).unwrap();
        let password = Credentials::Password { user: "u".into(), password: "p:q".into() };
        assert_eq!(
            found,
            [("docker.io".into(), password), ("quay.io".into(), Credentials::IdentityToken("t".into()))]
        );
    }

    #[test]
    fn what_is_no_secret_is_told_without_showing_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        std::fs::write(&file, r#"{"auths":{"quay.io":{"auth":"c2VjcmV0"}}}"#).unwrap();
        let error = read_credentials(&file).unwrap_err();
        assert!(error.to_string().ends_with("auths.quay.io: auth is not the base64 of user:password"));
    }
}
