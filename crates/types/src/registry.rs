//! Credentials for registries, as docker's configuration and `kubernetes.io/dockerconfigjson` secrets hold them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// The name that images of Docker Hub have, whatever a file calls its registry.
const DOCKER_HUB: &str = "docker.io";

/// `config.json` of docker, `auth.json` of podman, or the key `.dockerconfigjson` of a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct DockerConfig {
    /// Credentials by registry: a host, or an address with a scheme and a path.
    #[serde(default)]
    pub auths: BTreeMap<String, DockerAuth>,
}

/// The credentials for one registry. An entry without any is one whose secret a credential helper of docker's keeps.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct DockerAuth {
    /// The user.
    #[serde(default)]
    pub username: String,
    /// The user's password.
    #[serde(default)]
    pub password: String,
    /// The user's address for mail.
    #[serde(default)]
    pub email: String,
    /// The base64 of `user:password`.
    #[serde(default)]
    pub auth: String,
    /// A token by which others are had.
    #[serde(default, rename = "identitytoken")]
    pub identity_token: String,
    /// A token for the registry itself.
    #[serde(default, rename = "registrytoken")]
    pub registry_token: String,
}

/// Nothing that a log must not hold.
impl fmt::Debug for DockerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerAuth").finish_non_exhaustive()
    }
}

/// The registry and the path in it that an address of credentials is for: `quay.io` and `team/app`.
///
/// docker writes `https://index.docker.io/v1/` for `docker.io`. The version at the end of such an address is no path,
/// and the host may have a port.
#[must_use]
pub fn registry_of(address: &str) -> (&str, &str) {
    let bare = address.strip_prefix("https://").or(address.strip_prefix("http://")).unwrap_or(address);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let path = path.trim_matches('/');
    let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { DOCKER_HUB } else { host };
    (host, if matches!(path, "v1" | "v2") { "" } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_registry_and_a_path_in_it() {
        for (address, expected) in [
            ("https://index.docker.io/v1/", ("docker.io", "")),
            ("registry-1.docker.io", ("docker.io", "")),
            ("quay.io/team/app", ("quay.io", "team/app")),
            ("http://reg.example:5000/v2/", ("reg.example:5000", "")),
            ("docker.io.example", ("docker.io.example", "")),
            ("", ("", "")),
        ] {
            assert_eq!(registry_of(address), expected, "{address}");
        }
    }

    #[test]
    fn a_configuration_is_read_and_its_secrets_are_never_shown() {
        let text = r#"{"auths":{"quay.io":{"username":"hunter1","password":"hunter2","auth":"hunter3",
            "identitytoken":"hunter4","registrytoken":"hunter5"},"kept.example":{}},"credsStore":"x"}"#;
        let config: DockerConfig = serde_json::from_str(text).unwrap();
        let found = &config.auths["quay.io"];
        assert_eq!([&*found.username, &*found.identity_token], ["hunter1", "hunter4"]);
        assert_eq!(config.auths["kept.example"], DockerAuth::default());
        assert!(!format!("{config:?}").contains("hunter"));
    }
}
