//! A credential with which an image is pulled, and where it comes from.

use std::fmt;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use cri::AuthConfig;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use types::DockerAuth;

/// A credential. `Debug` does not print it.
#[derive(Clone, PartialEq)]
pub(crate) struct Credential {
    /// What the runtime is given.
    pub(crate) auth: AuthConfig,
    /// A digest of it that tells it from others.
    pub(crate) hash: String,
    pub(crate) source: CredentialSource,
}

/// Where a credential comes from, and so which pods may use an image that was pulled with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    /// The node: all pods.
    Node,
    /// A secret: pods that name it, or one with the same credential.
    Secret(SecretRef),
    /// A service account: its pods.
    ServiceAccount(AccountRef),
}

/// A secret, as records name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SecretRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A service account, as records name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Credential {
    pub(crate) fn new(entry: &DockerAuth, source: CredentialSource) -> Self {
        let entry = decoded(entry.clone());
        let hash = hash(&entry);
        let DockerAuth { username, password, auth, identity_token, registry_token, .. } = entry;
        let auth =
            AuthConfig { username, password, auth, identity_token, registry_token, ..AuthConfig::default() };
        Self { auth, hash, source }
    }
}

/// The entry with the user and the password that `auth` encodes, which count more than those beside it.
fn decoded(mut entry: DockerAuth) -> DockerAuth {
    let decode = |engine: &GeneralPurpose| {
        let text = String::from_utf8(engine.decode(&entry.auth).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        // Some clients end the text with zeroes.
        Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
    };
    if let Some((user, password)) = decode(&STANDARD).or_else(|| decode(&STANDARD_NO_PAD)) {
        (entry.username, entry.password) = (user, password);
        entry.auth = String::new();
    }
    entry
}

/// What a kubelet hashes: the fields in this order, without those that are empty.
#[derive(Serialize)]
struct Hashed<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    auth: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    email: &'a str,
    /// A kubelet does not read the tokens. Here they are credentials, so that two entries with different ones differ.
    #[serde(skip_serializing_if = "str::is_empty")]
    identitytoken: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    registrytoken: &'a str,
}

/// The SHA-256 of the credential as Go writes it in JSON; empty if it cannot be written, which equals no other.
fn hash(entry: &DockerAuth) -> String {
    let hashed = Hashed {
        username: &entry.username,
        password: &entry.password,
        auth: &entry.auth,
        email: &entry.email,
        identitytoken: &entry.identity_token,
        registrytoken: &entry.registry_token,
    };
    let Ok(text) = serde_json::to_string(&hashed) else { return String::new() };
    hex(&digest(&SHA256, escaped(&text).as_bytes()).as_ref())
}

/// The JSON text with the characters escaped that Go escapes and others do not. They occur in strings only.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut all, c| {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => all.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => all.push(c),
        }
        all
    })
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(username: &str, password: &str) -> DockerAuth {
        DockerAuth { username: username.into(), password: password.into(), ..DockerAuth::default() }
    }

    fn hashed(entry: &DockerAuth) -> String {
        Credential::new(entry, CredentialSource::Node).hash
    }

    /// The texts are those that Go writes for the same entries.
    #[test]
    fn the_hash_is_that_of_a_kubelet() {
        let of = |text: &str| hex(&digest(&SHA256, text.as_bytes()).as_ref());
        assert_eq!(hashed(&user("u", "p")), of(r#"{"username":"u","password":"p"}"#));
        assert_eq!(
            hashed(&user("a<b", "&\u{2028}")),
            of(r#"{"username":"a\u003cb","password":"\u0026\u2028"}"#)
        );
        let encoded = DockerAuth { auth: STANDARD.encode("u:p"), ..user("other", "x") };
        assert_eq!(hashed(&encoded), hashed(&user("u", "p")));
        assert_eq!(Credential::new(&encoded, CredentialSource::Node).auth.username, "u");
    }

    /// Two tenants whose entries have nothing but different tokens were one to the records.
    #[test]
    fn credentials_that_differ_in_tokens_only_have_different_hashes() {
        let token = |text: &str| DockerAuth { identity_token: text.into(), ..DockerAuth::default() };
        assert_ne!(hashed(&token("a")), hashed(&token("b")));
        let token = |text: &str| DockerAuth { registry_token: text.into(), ..DockerAuth::default() };
        assert_ne!(hashed(&token("a")), hashed(&token("b")));
        assert!(
            !format!("{:?}", Credential::new(&user("u", "hunter2"), CredentialSource::Node))
                .contains("hunter2")
        );
    }
}
