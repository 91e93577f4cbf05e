use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use types::DockerAuth;

use crate::reference::Reference;

const DOCKER_IO: &str = "docker.io";
/// Where docker.io's images really are.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// How a registry is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// TLS, always, unless configured otherwise.
    #[default]
    Https,
    /// In the clear, credentials included.
    PlainHttp,
}

/// Credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token by which others are had.
    IdentityToken(String),
    /// A token for the registry itself.
    RegistryToken(String),
}

/// `auth` of an entry of docker's configuration is not the base64 of `user:password`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("auth is not the base64 of user:password")]
pub struct NotAnAuth;

impl Credentials {
    /// The credentials of an entry; `None` if it has none. A user with a password takes precedence over a token, a
    /// token over a user without a password, and `auth` comes last, for files that have nothing else.
    ///
    /// # Errors
    /// If `auth` counts and cannot be decoded.
    pub fn of(entry: &DockerAuth) -> Result<Option<Self>, NotAnAuth> {
        let DockerAuth { username, password, auth, identity_token, registry_token, .. } = entry;
        let as_user = || Self::Password { user: username.clone(), password: password.clone() };
        Ok(Some(if !username.is_empty() && !password.is_empty() {
            as_user()
        } else if !identity_token.is_empty() {
            Self::IdentityToken(identity_token.clone())
        } else if !registry_token.is_empty() {
            Self::RegistryToken(registry_token.clone())
        } else if !username.is_empty() {
            as_user()
        } else if !auth.is_empty() {
            Self::decoded(auth).ok_or(NotAnAuth)?
        } else {
            return Ok(None);
        }))
    }

    fn decoded(auth: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
        // Some writers pad the decoded text with zero bytes.
        let (user, password) = text.trim_end_matches('\0').split_once(':')?;
        Some(Self::Password { user: user.to_owned(), password: password.to_owned() })
    }
}

impl std::fmt::Debug for Credentials {
    /// Nothing that a log must not hold.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::IdentityToken(_) => "IdentityToken",
            Self::RegistryToken(_) => "RegistryToken",
        })
    }
}

/// What is special about one registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registry {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Files with the certificates of authorities that are trusted in addition, in PEM.
    pub ca: Vec<PathBuf>,
    /// `host[:port][/prefix]`, asked before the registry itself, in this order.
    pub mirrors: Vec<String>,
    /// The credentials; anonymous without.
    pub credentials: Option<Credentials>,
}

/// Everything that is known about registries, by their hosts. Mirrors are registries, too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remote {
    /// By host and port.
    pub registries: BTreeMap<String, Registry>,
}

/// One place where an image may be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port.
    pub host: String,
    /// How it is spoken to.
    pub scheme: Scheme,
    /// The image's repository there.
    pub repository: String,
    /// Authorities that are trusted in addition.
    pub ca: Vec<PathBuf>,
    /// The credentials.
    pub credentials: Option<Credentials>,
    /// Of a mirror: whose images are wanted.
    pub of: Option<String>,
}

impl Endpoint {
    /// `https://host:port`.
    #[must_use]
    pub fn base(&self) -> String {
        match self.scheme {
            Scheme::Https => format!("https://{}", self.host),
            Scheme::PlainHttp => format!("http://{}", self.host),
        }
    }
}

impl Remote {
    /// Where to look for an image, in this order.
    #[must_use]
    pub fn endpoints(&self, reference: &Reference) -> Vec<Endpoint> {
        let registry = reference.registry();
        let mirrors = self.registries.get(registry).map_or(&[][..], |registry| &registry.mirrors);
        let mirrors = mirrors.iter().map(|mirror| {
            let (host, prefix) = mirror.split_once('/').unwrap_or((mirror, ""));
            let prefix = prefix.trim_matches('/');
            let separator = if prefix.is_empty() { "" } else { "/" };
            let repository = format!("{prefix}{separator}{}", reference.repository());
            self.endpoint(host, host, repository, Some(registry))
        });
        let host = if registry == DOCKER_IO { DOCKER_HUB } else { registry };
        let own = self.endpoint(registry, host, reference.repository().to_owned(), None);
        mirrors.chain([own]).collect()
    }

    fn endpoint(&self, known_as: &str, host: &str, repository: String, of: Option<&str>) -> Endpoint {
        let known = self.registries.get(known_as).cloned().unwrap_or_default();
        Endpoint {
            host: host.to_owned(),
            scheme: known.scheme,
            repository,
            ca: known.ca,
            credentials: known.credentials,
            of: of.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_credentials_of_an_entry_is_understood() {
        let none = DockerAuth::default;
        let password = |user: &str, password: &str| Credentials::Password {
            user: user.into(),
            password: password.into(),
        };
        let token = || Credentials::IdentityToken("t".into());
        let of = |entry: DockerAuth| Credentials::of(&entry);
        assert_eq!(of(none()), Ok(None));
        let user = DockerAuth { username: "u".into(), ..none() };
        assert_eq!(of(user.clone()), Ok(Some(password("u", ""))));
        assert_eq!(of(DockerAuth { identity_token: "t".into(), ..user.clone() }), Ok(Some(token())));
        let full = DockerAuth { password: "p".into(), identity_token: "t".into(), ..user };
        assert_eq!(of(full), Ok(Some(password("u", "p"))));
        assert_eq!(
            of(DockerAuth { registry_token: "r".into(), auth: "dTpw".into(), ..none() }),
            Ok(Some(Credentials::RegistryToken("r".into())))
        );
        // "u:p:q", and the same with a zero byte behind it
        for text in ["dTpwOnE=", "dTpwOnEA"] {
            assert_eq!(of(DockerAuth { auth: text.into(), ..none() }), Ok(Some(password("u", "p:q"))));
        }
        assert_eq!(of(DockerAuth { auth: "c2VjcmV0".into(), ..none() }), Err(NotAnAuth));
    }

    #[test]
    fn mirrors_come_first_and_have_settings_of_their_own() {
        let registry =
            Registry { mirrors: vec!["near:5000".into(), "hub.corp/proxy".into()], ..Registry::default() };
        let plain = Registry { scheme: Scheme::PlainHttp, ..Registry::default() };
        let registries =
            [("docker.io".to_owned(), registry), ("near:5000".to_owned(), plain)].into_iter().collect();
        let remote = Remote { registries };
        let found = remote.endpoints(&"busybox".parse().unwrap());
        let shown: Vec<String> = found.iter().map(|e| format!("{}/{}", e.base(), e.repository)).collect();
        assert_eq!(
            shown,
            [
                "http://near:5000/library/busybox",
                "https://hub.corp/proxy/library/busybox",
                "https://registry-1.docker.io/library/busybox"
            ]
        );
        assert_eq!(found[0].of.as_deref(), Some("docker.io"));
    }

    #[test]
    fn credentials_are_not_shown() {
        let secret = Credentials::Password { user: "u".into(), password: "secret".into() };
        assert!(!format!("{secret:?}").contains("secret"));
    }
}
