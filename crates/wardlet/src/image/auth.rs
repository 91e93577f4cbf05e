use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use images::{Credentials, Remote};
use serde::Deserialize;

use crate::cli::PullArgs;
use crate::failure::Failure;

const LONGEST_PASSWORD: u64 = 64 << 10;

/// docker's config.json and podman's auth.json, as far as it is needed.
#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
    #[serde(default)]
    registrytoken: Option<String>,
}

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
    let found: AuthFile = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    let mut all = Vec::new();
    for (key, auth) in found.auths {
        if let Some(credentials) = credentials(&auth).map_err(|why| wrong(format!("auths.{key}: {why}")))? {
            all.push((host(&key), credentials));
        }
    }
    Ok(all)
}

/// docker writes `https://index.docker.io/v1/` for docker.io, and others may have a scheme, too.
fn host(key: &str) -> String {
    let bare = key.strip_prefix("https://").or(key.strip_prefix("http://")).unwrap_or(key);
    let host = bare.split('/').next().unwrap_or(bare);
    if matches!(host, "index.docker.io" | "registry-1.docker.io") {
        "docker.io".to_owned()
    } else {
        host.to_owned()
    }
}

/// An entry without any is one whose secret is kept elsewhere by a helper of docker's.
fn credentials(auth: &Auth) -> Result<Option<Credentials>, String> {
    let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(token) = some(&auth.identitytoken) {
        return Ok(Some(Credentials::IdentityToken(token)));
    }
    if let Some(token) = some(&auth.registrytoken) {
        return Ok(Some(Credentials::RegistryToken(token)));
    }
    let Some(text) = some(&auth.auth) else { return Ok(None) };
    let decoded = STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
    let (user, password) = pair.ok_or("auth is not the base64 of user:password")?;
    Ok(Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() }))
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
