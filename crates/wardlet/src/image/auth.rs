use std::io::Read;
use std::path::Path;

use images::{Credentials, Remote};
use types::{DockerConfig, registry_of};

use crate::cli::PullArgs;
use crate::failure::Failure;

const LONGEST_PASSWORD: u64 = 64 << 10;

/// Gives the registries of `remote` the credentials that were named; those typed in are for `registry`.
pub(crate) fn apply(remote: &mut Remote, args: &PullArgs, registry: &str) -> Result<(), Failure> {
    if let Some(file) = &args.auth_file {
        for (host, credentials) in read(file)? {
            remote.registries.entry(host).or_default().credentials = Some(credentials);
        }
    }
    if let Some(user) = &args.user {
        let mut password = String::new();
        let read = std::io::stdin().take(LONGEST_PASSWORD).read_to_string(&mut password);
        read.map_err(|e| Failure::unknown(format!("cannot read the password from standard input: {e}")))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        let credentials = Credentials::Password { user: user.clone(), password };
        remote.registries.entry(registry.to_owned()).or_default().credentials = Some(credentials);
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<(String, Credentials)>, Failure> {
    let wrong = |why: String| Failure::unknown(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|e| wrong(format!("cannot read it: {e}")))?;
    let found: DockerConfig = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    let mut all = Vec::new();
    for (key, auth) in found.auths {
        let credentials = Credentials::of(&auth).map_err(|why| wrong(format!("auths.{key}: {why}")))?;
        all.extend(credentials.map(|credentials| (registry_of(&key).0.to_owned(), credentials)));
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
        let found = read(&file).unwrap();
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
        let failure = read(&file).unwrap_err();
        assert!(failure.message().ends_with("auths.quay.io: auth is not the base64 of user:password"));
    }
}
