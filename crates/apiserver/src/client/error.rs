//! What goes wrong between this node and the API server, and what to do about it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::client::AuthError;
use kube::core::Status;

use super::Identity;
use super::connections::NoCredentials;
use super::presented::difference;

/// Why no client can be built from a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The kubeconfig, or a file that it names, has no usable content.
    #[error("the kubeconfig {} cannot be used: {cause}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the file that it is about.
        cause: String,
    },
}

impl ClientError {
    pub(super) fn unusable(path: &Path, error: &(dyn Error + 'static)) -> Self {
        Self::Unusable { path: path.to_owned(), cause: chain(error) }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                "name the node's kubeconfig, or join the node to the cluster first: the installer writes this file"
            }
            Self::Unreadable { .. } => "the file must be readable by root",
            Self::Unusable { .. } => {
                "`kubectl --kubeconfig FILE auth whoami` shows whether kubectl can use the file"
            }
        }
    }
}

/// Classes of failed requests that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection to the API server.
    Unreachable,
    /// No answer within the deadline.
    Timeout,
    /// The server's certificate is not signed by the kubeconfig's authority, or not valid for the server's name.
    ServerCertificate,
    /// The server does not accept the client certificate, which has expired.
    ClientCertificateExpired,
    /// This node has no client certificate yet.
    NoClientCertificate,
    /// The server does not accept the credentials, and its clock and this node's differ.
    ClockSkew,
    /// The server does not accept the credentials.
    Unauthorized,
    /// No credentials could be had: a credential plugin failed.
    Credentials,
    /// The user may not do this.
    Forbidden,
    /// The object does not exist.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The object has changed since it was read.
    Conflict,
    /// The resource version is too old: list again.
    Gone,
    /// The server refuses the content of the request.
    Invalid,
    /// The answer is not what an API server answers.
    Unreadable,
    /// Any other answer.
    Other,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action}: {cause}")]
pub struct ApiError {
    action: String,
    kind: ErrorKind,
    cause: String,
    hint: String,
}

impl ApiError {
    /// Its class.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The same error with a hint that fits the caller's case better.
    #[must_use]
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: hint.to_owned(), ..self }
    }

    pub(super) fn new(action: &str, error: &kube::Error, identity: &Identity) -> Self {
        let found = match error {
            kube::Error::Api(status) => refused(status, identity),
            kube::Error::SerdeError(error) => unreadable(&error.to_string(), identity),
            error if deepest::<NoCredentials>(error).is_some() => no_certificate(identity),
            error => match deepest::<AuthError>(error) {
                Some(error) => credentials(error, identity),
                None => no_answer(error, identity),
            },
        };
        found.into_error(action)
    }

    pub(super) fn timeout(action: &str, deadline: Duration, identity: &Identity) -> Self {
        let cause = format!("{} did not answer within {} s", identity.server, deadline.as_secs());
        let hint = "the server is overloaded, or packets to it are lost: check the network of this node";
        Finding { kind: ErrorKind::Timeout, cause, hint: hint.to_owned() }.into_error(action)
    }
}

/// An error without the action that failed.
struct Finding {
    kind: ErrorKind,
    cause: String,
    hint: String,
}

impl Finding {
    fn into_error(self, action: &str) -> ApiError {
        ApiError { action: action.to_owned(), kind: self.kind, cause: self.cause, hint: self.hint }
    }
}

fn refused(status: &Status, identity: &Identity) -> Finding {
    let file = identity.kubeconfig.display();
    let said = || format!("{} answered {}: {}", identity.server, status.code, status.message);
    let (kind, cause, hint) = match status.code {
        401 => return unauthorized(identity, Timestamp::now()),
        403 => (
            ErrorKind::Forbidden,
            said(),
            format!(
                "the user of the kubeconfig {file} has no right to do this: a node's user is system:node:NAME, in the \
                 group system:nodes, and NAME must be the name of this node"
            ),
        ),
        404 => (ErrorKind::NotFound, said(), "the object was deleted or never created".to_owned()),
        409 if status.reason == "AlreadyExists" => {
            (ErrorKind::AlreadyExists, said(), "another writer created it".to_owned())
        }
        409 => (ErrorKind::Conflict, said(), "another writer changed it: read it again".to_owned()),
        410 => (ErrorKind::Gone, said(), "list the objects again".to_owned()),
        400 | 413 | 415 | 422 => (ErrorKind::Invalid, said(), "check the node's settings".to_owned()),
        _ => (ErrorKind::Other, said(), "the log of the API server may say more".to_owned()),
    };
    Finding { kind, cause, hint }
}

/// The API server does not tell why: the certificate itself does.
fn unauthorized(identity: &Identity, now: Timestamp) -> Finding {
    let file = identity.kubeconfig.display();
    if let Some(end) = identity.certificate_expires().filter(|end| *end <= now) {
        return Finding {
            kind: ErrorKind::ClientCertificateExpired,
            cause: format!(
                "the client certificate of the kubeconfig {file} expired at {end}, and {} does not accept it",
                identity.server
            ),
            hint: "renew the certificate (`kubeadm certs renew`, or join the node again), and check the clock of this \
                   node"
                .to_owned(),
        };
    }
    if let Some(ahead) = identity.skew() {
        let validity = identity
            .certificate_expires()
            .map_or_else(String::new, |end| format!("; the client certificate ends at {end}"));
        return Finding {
            kind: ErrorKind::ClockSkew,
            cause: format!(
                "{} does not accept the credentials of the kubeconfig {file}, and the clocks differ: {}{validity}",
                identity.server,
                difference(ahead, now)
            ),
            hint: "set the clock of this node (`timedatectl`, chrony), or the server's, and see whether the error \
                   stays"
                .to_owned(),
        };
    }
    Finding {
        kind: ErrorKind::Unauthorized,
        cause: format!("{} does not accept the credentials of the kubeconfig {file}", identity.server),
        hint: "the certificate may be of another cluster, or the token revoked: join the node again"
            .to_owned(),
    }
}

/// The request was not sent.
fn no_certificate(identity: &Identity) -> Finding {
    let file = identity.kubeconfig.display();
    let cause = identity.awaits().map_or_else(
        || {
            format!(
                "this node has no valid client certificate: the kubeconfig {file} names none that can be used"
            )
        },
        |what| format!("this node has no client certificate yet: it waits for {what}"),
    );
    let hint = "see the messages of the client certificate, and `kubectl get csr`; join the node again if nothing is \
                pending there";
    Finding { kind: ErrorKind::NoClientCertificate, cause, hint: hint.to_owned() }
}

fn unreadable(cause: &str, identity: &Identity) -> Finding {
    Finding {
        kind: ErrorKind::Unreadable,
        cause: format!("the answer of {} is not the expected object: {cause}", identity.server),
        hint: "check whether a proxy answers in place of the API server".to_owned(),
    }
}

fn credentials(error: &AuthError, identity: &Identity) -> Finding {
    let file = identity.kubeconfig.display();
    Finding {
        kind: ErrorKind::Credentials,
        cause: format!("no credentials from the kubeconfig {file}: {}", chain(error)),
        hint: "run by hand what `users[].user.exec` of the kubeconfig names".to_owned(),
    }
}

/// The request did not reach the server, or the answer did not come back whole.
fn no_answer(error: &kube::Error, identity: &Identity) -> Finding {
    let file = identity.kubeconfig.display();
    let server = &identity.server;
    let (words, cause) = (chain(error), innermost(error));
    if words.contains("invalid peer certificate")
        && (words.contains("not valid yet") || words.contains("certificate expired"))
    {
        return Finding {
            kind: ErrorKind::ServerCertificate,
            cause: format!(
                "the certificate of {server} is not valid now, by the clock of this node: {cause}"
            ),
            hint: format!(
                "the clock of this node reads {}: set it if that is wrong (`timedatectl`, chrony); otherwise renew the \
                 server's certificate (`kubeadm certs renew apiserver`)",
                Timestamp::now().round(k8s_openapi::jiff::Unit::Second).unwrap_or_default()
            ),
        };
    }
    if words.contains("invalid peer certificate") {
        return Finding {
            kind: ErrorKind::ServerCertificate,
            cause: format!("the certificate of {server} is not trusted: {cause}"),
            hint: format!(
                "the `certificate-authority` of the kubeconfig {file} must be the one that signed the server's \
                 certificate, and `server` a name in that certificate; check the clock of this node, too"
            ),
        };
    }
    let hint = match deepest::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => {
            format!("nothing listens there: start the API server, or correct `server` in {file}")
        }
        _ if words.contains("dns error") => {
            format!("the name cannot be resolved on this node: check its DNS, or `server` in {file}")
        }
        _ => format!("check the network of this node, and `server` in {file}"),
    };
    Finding { kind: ErrorKind::Unreachable, cause: format!("cannot reach {server}: {cause}"), hint }
}

/// The error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&e: &&'a (dyn Error + 'static)| e.source())
}

/// The deepest error of this type, if there is one.
fn deepest<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).filter_map(|e| e.downcast_ref::<T>()).last()
}

/// The last cause: those before it only say that something failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Each cause once, outermost first.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut all: Vec<String> = Vec::new();
    for words in causes(error).map(ToString::to_string) {
        if !all.iter().any(|before| before.contains(&words)) {
            all.push(words);
        }
    }
    all.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(certificate_expires: Option<i64>) -> Identity {
        let identity = Identity::new("https://127.0.0.1:6443", Path::new("/etc/kubernetes/kubelet.conf"));
        let end = certificate_expires.map(|at| Timestamp::from_second(at).unwrap());
        identity.set_certificate_expires(end);
        identity
    }

    fn answer(code: u16, reason: &str) -> ErrorKind {
        let status = Status { code, reason: reason.to_owned(), ..Status::default() };
        ApiError::new("get Node a", &kube::Error::Api(status.boxed()), &identity(None)).kind()
    }

    #[test]
    fn conflicts_are_told_from_objects_that_exist() {
        assert_eq!(answer(409, "AlreadyExists"), ErrorKind::AlreadyExists);
        assert_eq!(answer(409, "Conflict"), ErrorKind::Conflict);
        assert_eq!(answer(403, "Forbidden"), ErrorKind::Forbidden);
        assert_eq!(answer(500, "InternalError"), ErrorKind::Other);
    }

    #[test]
    fn a_refused_certificate_is_called_expired_only_if_it_is() {
        let now = Timestamp::from_second(1000).unwrap();
        let expired = unauthorized(&identity(Some(999)), now);
        assert_eq!(expired.kind, ErrorKind::ClientCertificateExpired);
        assert!(expired.cause.contains("/etc/kubernetes/kubelet.conf"), "{}", expired.cause);
        assert_eq!(unauthorized(&identity(Some(1001)), now).kind, ErrorKind::Unauthorized);
        assert_eq!(unauthorized(&identity(None), now).kind, ErrorKind::Unauthorized);
    }
    #[test]
    fn a_refusal_names_clocks_that_differ() {
        let identity = identity(Some(5000));
        let now = Timestamp::from_second(1000).unwrap();
        let date = hyper::header::HeaderValue::from_static("Thu, 01 Jan 1970 02:00:00 GMT");
        identity.saw_date(Some(&date), now);
        let found = unauthorized(&identity, now);
        assert_eq!(found.kind, ErrorKind::ClockSkew);
        assert!(found.cause.contains("6200 s ahead"), "{}", found.cause);
    }

    #[test]
    fn a_node_without_a_certificate_says_what_it_waits_for() {
        let identity = identity(None);
        identity.set_awaits(Some("the approval of CertificateSigningRequest csr-1".to_owned()));
        let error = kube::Error::Service(Box::new(NoCredentials));
        let found = ApiError::new("get Node a", &error, &identity);
        assert_eq!(found.kind(), ErrorKind::NoClientCertificate);
        assert!(found.to_string().contains("csr-1"), "{found}");
    }
}
