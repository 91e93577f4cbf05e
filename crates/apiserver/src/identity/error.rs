use std::path::PathBuf;

use k8s_openapi::jiff::Timestamp;

use crate::client::{ApiError, ClientError, ErrorKind};

/// Why this node has no identity at the API server.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] ClientError),
    /// The API server refuses a request, or does not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A file in the certificate directory, or the kubeconfig, cannot be read or written.
    #[error(transparent)]
    File(#[from] durable::Error),
    /// A key or a request cannot be made.
    #[error("cannot make a request for a certificate: {0}")]
    Crypto(String),
    /// The request is denied, or its signer failed.
    #[error("CertificateSigningRequest {name} of this node {outcome}: {cause}")]
    Refused {
        /// The request.
        name: String,
        /// "was denied" or "failed".
        outcome: &'static str,
        /// Reason and message of the condition.
        cause: String,
    },
    /// The request was not answered in time.
    #[error(
        "CertificateSigningRequest {name} of this node has no certificate after {minutes} minutes: {missing}"
    )]
    Unanswered {
        /// The request.
        name: String,
        /// How long it was waited for.
        minutes: u64,
        /// What has not happened.
        missing: &'static str,
    },
    /// The certificate that was issued cannot be used.
    #[error("the certificate of CertificateSigningRequest {name} cannot be used: {cause}")]
    Issued {
        /// The request.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The certificate has expired and was not renewed.
    #[error(
        "the client certificate of this node expired at {end}, and {server} did not issue another one in time"
    )]
    Expired {
        /// The end of its validity.
        end: Timestamp,
        /// The URL of the API server.
        server: String,
    },
    /// There is no certificate.
    #[error("this node has had no valid client certificate for {minutes} minutes, and {server} answers; the certificate is expected in {}", path.display())]
    Missing {
        /// For how long.
        minutes: u64,
        /// The URL of the API server.
        server: String,
        /// Where it is expected.
        path: PathBuf,
    },
}

impl IdentityError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Kubeconfig(error) => error.hint().to_owned(),
            Self::Api(error) => error.hint().to_owned(),
            Self::File(_) => "the directories of --cert-dir and --kubeconfig must be writable by root, and have free space".to_owned(),
            Self::Crypto(_) => "check the node's name: it becomes the name in the certificate".to_owned(),
            Self::Refused { name, .. } => format!(
                "`kubectl describe csr {name}` shows the reason; `kubectl delete csr {name}` and a restart of the agent \
                 request the certificate again"
            ),
            Self::Unanswered { name, .. } => format!(
                "`kubectl certificate approve {name}`, or let the controller manager approve requests of nodes \
                 (ClusterRoleBindings to system:certificates.k8s.io:certificatesigningrequests:nodeclient and \
                 :selfnodeclient); it signs if it has --cluster-signing-cert-file and --cluster-signing-key-file"
            ),
            Self::Issued { .. } => {
                "check the signer, and the clocks of this node and of the controller manager".to_owned()
            }
            Self::Expired { .. } | Self::Missing { .. } => {
                "start the agent again with a valid --bootstrap-kubeconfig (`kubeadm token create` makes a token), or join \
                 the node again; check the clock of this node, too"
                    .to_owned()
            }
        }
    }

    /// The same with a hint for the request of a first certificate.
    pub(super) fn of_bootstrap(error: ApiError) -> Self {
        let hint = match error.kind() {
            ErrorKind::Unauthorized => {
                "the bootstrap token is wrong or has expired: `kubeadm token create --print-join-command` makes another one"
            }
            ErrorKind::Forbidden => {
                "the bootstrap user needs the ClusterRole system:node-bootstrapper: bind it to the group \
                 system:bootstrappers:kubeadm:default-node-token, or to the group of this token"
            }
            _ => return Self::Api(error),
        };
        Self::Api(error.with_hint(hint))
    }
}
