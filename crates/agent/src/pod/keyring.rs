//! Credentials for image pulls: the docker configurations in the secrets of a pod's imagePullSecrets.

use std::collections::BTreeMap;

use cri::AuthConfig;
use tracing::warn;
use types::{DockerAuth, DockerConfig, registry_of};

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::ports::ObjectStore;

const CONFIG: &str = ".dockerconfigjson";
const OLD_CONFIG: &str = ".dockercfg";
const DOCKER: &str = "docker.io";

/// Credentials, each with the registry and path that it is for.
#[derive(Debug, Default)]
pub(crate) struct Keyring(Vec<(Scope, DockerAuth)>);

impl Keyring {
    /// The credentials of a pod's imagePullSecrets, in the pod's order. A secret that does not exist is
    /// logged and ignored, as the kubelet does.
    ///
    /// # Errors
    /// If a secret exists and has no valid credentials.
    pub(crate) fn of(context: &PodContext, objects: &dyn ObjectStore) -> Result<Self> {
        let mut all = Vec::new();
        for named in context.spec.image_pull_secrets.iter().flatten() {
            match objects.secret(&context.namespace, &named.name)? {
                Some(secret) => all.extend(entries(&named.name, &secret.data)?),
                None => {
                    let secret = named.name.as_str();
                    warn!(parent: &context.span, secret, "imagePullSecrets: there is no secret {secret:?}");
                }
            }
        }
        Ok(Self(all))
    }

    /// The credentials to try for this image, in this order; a single `None`, an anonymous pull, if no secret
    /// matches.
    pub(crate) fn for_image(&self, image: &str) -> Vec<Option<AuthConfig>> {
        let wanted = Scope::of_image(image);
        let mut fitting: Vec<&(Scope, DockerAuth)> =
            self.0.iter().filter(|(scope, _)| scope.holds(&wanted)).collect();
        // The longest path first; among equals, in the pod's order.
        fitting.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.path.len()));
        let found: Vec<_> = fitting.into_iter().map(|(_, entry)| Some(lowered(entry))).collect();
        if found.is_empty() { vec![None] } else { found }
    }
}

fn entries(secret: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Vec<(Scope, DockerAuth)>> {
    let field = || format!("imagePullSecrets: secret {secret:?}");
    // The parser's message may quote the secret, so it is not shown.
    let wrong = |key: &str| Error::config(field(), format!("{key} is no docker configuration"));
    let auths = if let Some(text) = data.get(CONFIG) {
        serde_json::from_slice::<DockerConfig>(text).map_err(|_| wrong(CONFIG))?.auths
    } else if let Some(text) = data.get(OLD_CONFIG) {
        serde_json::from_slice(text).map_err(|_| wrong(OLD_CONFIG))?
    } else {
        return Err(Error::config(field(), format!("it has neither {CONFIG} nor {OLD_CONFIG}")));
    };
    Ok(auths.into_iter().map(|(key, entry)| (Scope::of_address(&key), entry)).collect())
}

/// Converts an entry to CRI, which has all of docker's kinds of credentials.
fn lowered(entry: &DockerAuth) -> AuthConfig {
    let DockerAuth { username, password, auth, identity_token, registry_token } = entry.clone();
    let auth = if username.is_empty() { auth } else { String::new() };
    AuthConfig { username, password, auth, identity_token, registry_token, ..AuthConfig::default() }
}

/// A registry and a path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scope {
    host: String,
    port: String,
    path: String,
}

impl Scope {
    /// Parses a registry address, as [`registry_of`] splits it.
    fn of_address(address: &str) -> Self {
        let (host, path) = registry_of(address);
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        Self { host: host.to_owned(), port: port.to_owned(), path: path.to_owned() }
    }

    /// Parses an image name. Its first part is a registry if it has the form of a host name.
    fn of_image(image: &str) -> Self {
        match image.split_once('/') {
            Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => Self::of_address(image),
            Some(_) => Self::of_address(&format!("{DOCKER}/{image}")),
            None => Self::of_address(&format!("{DOCKER}/library/{image}")),
        }
    }

    /// Whether credentials for this scope apply to `wanted`. A `*` matches one label of a host name, or a
    /// part of it.
    fn holds(&self, wanted: &Self) -> bool {
        let parts = (self.host.split('.'), wanted.host.split('.'));
        let is_host = parts.0.clone().count() == parts.1.clone().count()
            && parts.0.zip(parts.1).all(|(p, t)| fits(p, t));
        let rest = wanted.path.strip_prefix(self.path.as_str());
        let is_below = rest
            .is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with(['/', ':', '@']));
        is_host && self.port == wanted.port && is_below
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(tail) = text.strip_prefix(start) else { return false };
            (0..=tail.len()).any(|cut| tail.get(cut..).is_some_and(|tail| fits(rest, tail)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(config: &str) -> Keyring {
        let data = BTreeMap::from([(CONFIG.to_owned(), config.as_bytes().to_vec())]);
        Keyring(entries("s", &data).unwrap())
    }

    fn users(keyring: &Keyring, image: &str) -> Vec<String> {
        keyring.for_image(image).into_iter().map(|a| a.map_or("nobody".to_owned(), |a| a.username)).collect()
    }

    #[test]
    fn credentials_are_for_the_registries_and_paths_that_they_name() {
        let entry = |user: &str| format!(r#"{{"username":"{user}","password":"p"}}"#);
        let text = format!(
            r#"{{"auths":{{"https://index.docker.io/v1/":{},"quay.io":{},"quay.io/team/app":{},"*.example.com:5000":{}}}}}"#,
            entry("docker"),
            entry("quay"),
            entry("team"),
            entry("star")
        );
        let keyring = keyring(&text);
        for (image, expected) in [
            ("busybox", vec!["docker"]),
            ("docker.io/library/busybox:1", vec!["docker"]),
            ("quay.io/other:1", vec!["quay"]),
            ("quay.io/team/app:1", vec!["team", "quay"]),
            ("quay.io/team/app@sha256:00", vec!["team", "quay"]),
            ("quay.io/team/application", vec!["quay"]),
            ("reg.example.com:5000/x", vec!["star"]),
            ("reg.example.com/x", vec!["nobody"]),
            ("a.b.example.com:5000/x", vec!["nobody"]),
            ("ghcr.io/x", vec!["nobody"]),
        ] {
            assert_eq!(users(&keyring, image), expected, "{image}");
        }
    }

    #[test]
    fn a_secret_without_credentials_is_told_and_never_shown() {
        let data = BTreeMap::from([(CONFIG.to_owned(), br#"{"auths": hunter2"#.to_vec())]);
        let error = entries("s", &data).unwrap_err().to_string();
        assert_eq!(error, "imagePullSecrets: secret \"s\": .dockerconfigjson is no docker configuration");
        assert!(entries("s", &BTreeMap::new()).unwrap_err().to_string().contains("neither"));
        let old = BTreeMap::from([(OLD_CONFIG.to_owned(), br#"{"quay.io":{"auth":"dTpw"}}"#.to_vec())]);
        let found = Keyring(entries("s", &old).unwrap()).for_image("quay.io/x");
        assert_eq!(found[0].as_ref().unwrap().auth, "dTpw");
    }
}
