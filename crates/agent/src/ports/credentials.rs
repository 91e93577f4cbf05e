//! What an API server gives a pod to prove its identity and to verify that of others: tokens, certificates, trust bundles.

use std::collections::BTreeMap;
use std::fmt;

use manifest::k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::PodRef;

/// A request for a token that is bound to a pod: it is invalid once the pod is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenRequest {
    /// The pod.
    pub pod: PodRef,
    /// The name of the service account, in the pod's namespace.
    pub service_account: String,
    /// The audience that the token is for; the API server's own if it is `None`.
    pub audience: Option<String>,
    /// How long the token is to be valid. The API server may decide otherwise.
    pub expiration_seconds: i64,
}

impl TokenRequest {
    /// The service account as `namespace/name`, for messages.
    #[must_use]
    pub fn account(&self) -> String {
        format!("{}/{}", self.pod.namespace, self.service_account)
    }
}

/// A token. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token with this text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Its text: for the file in the pod, never for logs or records.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Which ClusterTrustBundles a file of a pod has the certificates of.
#[derive(Debug, Clone, PartialEq)]
pub enum TrustBundles {
    /// The one of this name.
    Named(String),
    /// Those of a signer with matching labels.
    OfSigner {
        /// The name of the signer.
        signer: String,
        /// The labels. Without a selector no bundle matches; an empty one matches all.
        labels: Option<LabelSelector>,
    },
}

impl fmt::Display for TrustBundles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "clusterTrustBundle {name:?}"),
            Self::OfSigner { signer, labels } => {
                write!(f, "clusterTrustBundle with signerName {signer:?}")?;
                match labels {
                    Some(labels) => {
                        let labels = serde_json::to_string(labels).unwrap_or_default();
                        write!(f, " and labelSelector {labels}")
                    }
                    None => f.write_str(" and no labelSelector, which matches none"),
                }
            }
        }
    }
}

/// A place of a pod that has a certificate: a source of a projected volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertificatePlace {
    /// The volume.
    pub volume: String,
    /// The index of the source.
    pub source: usize,
}

/// A request for a certificate of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The pod.
    pub pod: PodRef,
    /// Where in the pod it goes.
    pub place: CertificatePlace,
    /// The name of the pod's service account.
    pub service_account: String,
    /// The name of the signer.
    pub signer: String,
    /// The type of the key, as the API has it: `ED25519`.
    pub key_type: String,
    /// The longest time that the certificate may be valid; the API server's default if it is `None`.
    pub max_expiration_seconds: Option<i32>,
    /// What the pod says to the signer.
    pub annotations: BTreeMap<String, String>,
}

/// A key and its certificates. `Debug` prints neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    key: String,
    chain: String,
}

impl Credentials {
    /// A key and the certificates of it, each as PEM.
    #[must_use]
    pub fn new(key: String, chain: String) -> Self {
        Self { key, chain }
    }

    /// The key as PEM: for the file in the pod, never for logs or records.
    #[must_use]
    pub fn expose_key(&self) -> &str {
        &self.key
    }

    /// The certificates as PEM: that of the key first.
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.chain
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}
