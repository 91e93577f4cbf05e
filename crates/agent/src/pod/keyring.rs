//! Credentials for the image pulls of a pod: those of its imagePullSecrets, of the node, and of credential providers.

use std::collections::BTreeMap;

use tracing::warn;
use types::{DockerConfig, ImageName};

use crate::error::{Error, Result};
use crate::images::credential::{Credential, CredentialSource, SecretRef};
use crate::images::node_config::{Entry, entries};
use crate::images::scope::Scope;
use crate::pod::context::PodContext;
use crate::ports::ObjectStore;

const CONFIG: &str = ".dockerconfigjson";
const OLD_CONFIG: &str = ".dockercfg";

/// The credentials in the secrets of a pod, each with the registry and path that it is for.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    entries: Vec<(Scope, Credential)>,
    /// The secrets that do not exist.
    missing: Vec<String>,
}

impl Keyring {
    /// The credentials of a pod's imagePullSecrets, in the pod's order. A secret that does not exist is
    /// logged and ignored, as the kubelet does.
    ///
    /// # Errors
    /// If a secret exists and has no valid credentials.
    pub(crate) fn of(context: &PodContext, objects: &dyn ObjectStore) -> Result<Self> {
        let mut keyring = Self::default();
        for named in context.spec.image_pull_secrets.iter().flatten() {
            match objects.secret(&context.namespace, &named.name)? {
                Some(secret) => {
                    let (namespace, name) = (context.namespace.clone(), named.name.clone());
                    let source =
                        CredentialSource::Secret(SecretRef { namespace, name, uid: secret.uid.clone() });
                    let found = read(&named.name, &secret.data)?;
                    keyring.entries.extend(tracked(found, &source));
                }
                None => {
                    let secret = named.name.as_str();
                    warn!(parent: &context.span, secret, "imagePullSecrets: there is no secret {secret:?}");
                    keyring.missing.push(named.name.clone());
                }
            }
        }
        Ok(keyring)
    }

    /// The secrets that the pod names and that do not exist.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The credentials to try for this image, in this order.
    pub(crate) fn for_image(&self, image: &ImageName) -> Vec<Credential> {
        fitting(&self.entries, image)
    }
}

/// The credentials of a docker configuration on the node for this image.
pub(crate) fn of_node(entries: Vec<Entry>, image: &ImageName) -> Vec<Credential> {
    fitting(&tracked(entries, &CredentialSource::Node), image)
}

fn tracked(entries: Vec<Entry>, source: &CredentialSource) -> Vec<(Scope, Credential)> {
    entries.into_iter().map(|entry| (entry.scope, Credential::new(&entry.auth, source.clone()))).collect()
}

/// The longest path first; among equals, in their order.
fn fitting(entries: &[(Scope, Credential)], image: &ImageName) -> Vec<Credential> {
    let wanted = Scope::of_image(image);
    let mut fitting: Vec<&(Scope, Credential)> =
        entries.iter().filter(|(scope, _)| scope.holds(&wanted)).collect();
    fitting.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.depth()));
    fitting.into_iter().map(|(_, credential)| credential.clone()).collect()
}

fn read(secret: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Vec<Entry>> {
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
    Ok(entries(auths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(config: &str) -> Keyring {
        let data = BTreeMap::from([(CONFIG.to_owned(), config.as_bytes().to_vec())]);
        let entries = tracked(read("s", &data).unwrap(), &CredentialSource::Node);
        Keyring { entries, missing: Vec::new() }
    }

    fn users(keyring: &Keyring, image: &str) -> Vec<String> {
        let found = keyring.for_image(&ImageName::parse(image).unwrap());
        found.into_iter().map(|credential| credential.auth.username).collect()
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
        let by_digest = format!("quay.io/team/app@sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("busybox", vec!["docker"]),
            ("docker.io/library/busybox:1", vec!["docker"]),
            ("quay.io/other:1", vec!["quay"]),
            ("quay.io/team/app:1", vec!["team", "quay"]),
            (by_digest.as_str(), vec!["team", "quay"]),
            ("quay.io/team/application", vec!["quay"]),
            ("reg.example.com:5000/x", vec!["star"]),
            ("reg.example.com/x", vec![]),
            ("a.b.example.com:5000/x", vec![]),
            ("ghcr.io/x", vec![]),
        ] {
            assert_eq!(users(&keyring, image), expected, "{image}");
        }
    }

    #[test]
    fn a_secret_without_credentials_is_told_and_never_shown() {
        let data = BTreeMap::from([(CONFIG.to_owned(), br#"{"auths": hunter2"#.to_vec())]);
        let error = read("s", &data).unwrap_err().to_string();
        assert_eq!(error, "imagePullSecrets: secret \"s\": .dockerconfigjson is no docker configuration");
        assert!(read("s", &BTreeMap::new()).unwrap_err().to_string().contains("neither"));
        let old = BTreeMap::from([(OLD_CONFIG.to_owned(), br#"{"quay.io":{"auth":"dTpw"}}"#.to_vec())]);
        let found = of_node(read("s", &old).unwrap(), &ImageName::parse("quay.io/x").unwrap());
        assert_eq!((found[0].auth.username.as_str(), found[0].auth.password.as_str()), ("u", "p"));
    }
}
