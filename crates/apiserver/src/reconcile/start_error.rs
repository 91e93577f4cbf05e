//! Why a pod could not be started or changed.

use agent::Error;
use types::reason;
use volumes::payload::{Problem, SourceName};

/// Event: a change of the pod cannot be applied while it runs.
const FAILED_SYNC: &str = "FailedSync";
/// What to do about a pod whose UID has a lease, for instance because a process of an earlier attempt still uses its host IDs.
const UID_IN_USE: &str = "`wardlet ids list` shows the lease, and `wardlet ids audit` what uses its host IDs; the pod starts when they are free";

/// Why a pod could not be started or changed, as in its event. It is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    /// The reason of the event.
    pub reason: &'static str,
    /// Its message, with what to do.
    pub message: String,
    /// The cause in a word, for metrics: the field of the pod that cannot be honoured, or what failed.
    pub cause: String,
}

impl StartError {
    /// Another error than a refusal; `cause` in a word, for metrics.
    pub(crate) fn other(cause: &str, message: String) -> Self {
        Self { reason: reason::FAILED_CREATE_POD_SANDBOX, message, cause: cause.to_owned() }
    }

    /// The refusals of a pod, of which there is at least one.
    #[must_use]
    pub fn refused(refusals: &[admission::Refused]) -> Self {
        let text = |one: &admission::Refused| {
            let hint = Some(&one.hint).filter(|hint| !hint.is_empty());
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("{}: {}{hint}", one.field, one.cause)
        };
        let field = refusals.first().map_or("", |first| first.field.as_str());
        // As a kubelet reports it: volumes are set up before the sandbox is made.
        let is_claim = field.starts_with("spec.resourceClaims") || field.ends_with("resources.claims");
        let reason = match field {
            field if field.starts_with("spec.volumes[") => reason::FAILED_MOUNT,
            _ if is_claim => reason::FAILED_PREPARE_DYNAMIC_RESOURCES,
            _ => reason::FAILED_CREATE_POD_SANDBOX,
        };
        let message = refusals.iter().map(text).collect::<Vec<_>>().join("; ");
        Self { reason, message, cause: without_indices(field) }
    }

    pub(super) fn no_sandbox(cause: &str) -> Self {
        Self::other("runtime class", format!("Failed to create pod sandbox: {cause}"))
    }
}

/// What is wrong with a source of a volume, in the kubelet's words where it has some.
fn what(error: &volumes::payload::Error) -> String {
    let kind = match &error.source_name {
        SourceName::ConfigMap(_) => "config",
        _ => "secret",
    };
    match (&error.source_name, &*error.problem) {
        (SourceName::ConfigMap(name), Problem::NoObject) => format!("configmap {name:?} not found"),
        (SourceName::Secret(name), Problem::NoObject) => format!("secret {name:?} not found"),
        (SourceName::ConfigMap(name) | SourceName::Secret(name), Problem::NoKey { key }) => {
            format!("{name}: references non-existent {kind} key: {key}")
        }
        (source, problem) => format!("{source}: {problem}"),
    }
}

/// A field without the indices of lists: one cause has one name.
fn without_indices(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once(']').map_or("", |(_, rest)| rest))
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        let (reason, cause) = match error {
            Error::Volumes(_)
            | Error::Payload(_)
            | Error::Config { .. }
            | Error::Token { .. }
            | Error::OfVolume { .. } => (reason::FAILED_MOUNT, "volumes"),
            Error::Immutable { .. } => (FAILED_SYNC, "update"),
            Error::Cgroups(_) => (reason::FAILED_CREATE_POD_CONTAINER, "cgroups"),
            Error::Ledger(_) => (reason::FAILED_CREATE_POD_SANDBOX, "host IDs"),
            Error::NotAdmitted { .. } | Error::Admission(_) => {
                (reason::FAILED_CREATE_POD_SANDBOX, "not admitted")
            }
            _ => (reason::FAILED_CREATE_POD_SANDBOX, "other"),
        };
        let (message, hint) = match &error {
            Error::Payload(cause) => {
                let message =
                    format!("MountVolume.SetUp failed for volume {:?} : {}", cause.volume, what(cause));
                (message, Some(cause.hint().to_owned()))
            }
            Error::OfVolume { volume, cause } => {
                (format!("MountVolume.SetUp failed for volume {volume:?} : {cause}"), cause.hint())
            }
            // Their hints are about manifests.
            Error::Config { .. } => (error.to_string(), None),
            Error::UidTaken { .. } => (error.to_string(), Some(UID_IN_USE.to_owned())),
            _ => (error.to_string(), error.hint()),
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        Self { reason, message: format!("{message}{hint}"), cause: cause.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(field: &str, cause: &str, hint: &str) -> admission::Refused {
        admission::Refused { field: field.into(), cause: cause.into(), hint: hint.into(), at: None }
    }

    #[test]
    fn the_uid_of_a_pod_of_the_api_is_not_the_way_out() {
        let uid = types::PodUid::new("0aa7a1ce-0000-4000-8000-000000000001").unwrap();
        let owner = "another holder of a lease in the ledger (host IDs 65536-131071, draining)".to_owned();
        let error = StartError::from(Error::UidTaken { pod: "shop/web".to_owned(), uid, owner });
        assert!(
            error.message.contains("65536-131071") && error.message.contains("ids list"),
            "{}",
            error.message
        );
        assert!(!error.message.contains("manifest"), "{}", error.message);
    }

    #[test]
    fn a_refusal_is_reported_as_a_kubelet_reports_what_failed_with_what_to_do() {
        let volume = refused("spec.volumes[3].nfs", "not run here", "use emptyDir");
        let users = refused("spec.hostUsers", "the handler has no user namespaces", "");
        let error = StartError::refused(&[volume.clone(), users.clone()]);
        assert_eq!((error.reason, error.cause.as_str()), ("FailedMount", "spec.volumes.nfs"));
        assert_eq!(
            error.message,
            "spec.volumes[3].nfs: not run here; use emptyDir; spec.hostUsers: the handler has no user namespaces"
        );
        for field in ["spec.resourceClaims", "spec.containers[1].resources.claims"] {
            let claims = refused(field, "not run here", "");
            assert_eq!(StartError::refused(&[claims]).reason, "FailedPrepareDynamicResources", "{field}");
        }
        let error = StartError::refused(&[users, volume]);
        assert_eq!((error.reason, error.cause.as_str()), ("FailedCreatePodSandBox", "spec.hostUsers"));
        assert_eq!(without_indices("spec.containers[0].env[12].valueFrom"), "spec.containers.env.valueFrom");
    }
}
