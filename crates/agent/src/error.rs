use std::io;
use std::path::{Path, PathBuf};

use cri::CallError;
use types::{PodUid, reason};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason of a container whose image volume the runtime cannot mount; the runtime puts it before its message.
const IMAGE_VOLUME_MOUNT_FAILED: &str = "ImageVolumeMountFailed";

/// Why an operation on a pod failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A CRI call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The metrics cannot be registered: another agent has this registry.
    #[error(transparent)]
    Metrics(#[from] telemetry::metrics::Error),
    /// An image is not present, and imagePullPolicy `Never` forbids a pull.
    #[error("image {image:?} is not present on this node, and imagePullPolicy is Never")]
    NeverPull {
        /// The image.
        image: String,
    },
    /// The pull of an image failed.
    #[error("image {image:?} cannot be pulled: {message}")]
    Pull {
        /// The image.
        image: String,
        /// The runtime's message.
        message: String,
    },
    /// A running pod cannot be given other resources now.
    #[error("{cause}")]
    Resize {
        /// Why.
        cause: String,
    },
    /// The name of an image is none.
    #[error(transparent)]
    ImageName(types::NotAnImageName),
    /// The pod is being stopped, and the pull of an image was cancelled.
    #[error("image {image:?}: the pull was cancelled because the pod is being stopped")]
    Ending {
        /// The image.
        image: String,
    },
    /// The pod was updated with another image, and the pull of this one was cancelled.
    #[error("the pod was updated before image {image:?} was pulled")]
    Superseded {
        /// The image.
        image: String,
    },
    /// The runtime has put a container outside of the user namespace of its pod.
    #[error(
        "the runtime has put process {process} of container {container} outside of the pod's user namespace: the container is \
         killed, and the pod gets a new sandbox"
    )]
    Outside {
        /// The container.
        container: String,
        /// The process.
        process: u32,
    },
    /// An update changes fields that are immutable while the pod runs.
    #[error("pod {pod}: {} cannot change while the pod runs", fields.join(", "))]
    Immutable {
        /// The pod.
        pod: String,
        /// The immutable fields that differ, as paths such as `spec.containers[0].command`.
        fields: Vec<String>,
    },
    /// An object or value that a field references does not exist or cannot be used.
    #[error("{field}: {cause}")]
    Config {
        /// The field.
        field: String,
        /// What is wrong.
        cause: String,
    },
    /// The host name with its domain is longer than the kernel takes.
    #[error("FQDN {name} is too long ({longest} characters is the max, {} characters requested)", name.len())]
    HostnameTooLong {
        /// The host name with its domain.
        name: String,
        /// The kernel's longest.
        longest: usize,
    },
    /// There is no token of a service account for the pod.
    #[error("service account {account}: no token for the pod: {cause}")]
    Token {
        /// The service account, as `namespace/name`.
        account: String,
        /// The API server's answer, or why there is none.
        cause: String,
    },
    /// Trust bundles that are not optional do not exist, or cannot be read.
    #[error("{bundles}: {cause}")]
    TrustBundles {
        /// Which, as the pod names them.
        bundles: String,
        /// The API server's answer, or why there is none.
        cause: String,
    },
    /// There is no certificate of a signer for the pod, or none yet.
    #[error("podCertificate of signer {signer:?}: {cause}")]
    Certificate {
        /// The name of the signer.
        signer: String,
        /// The answer of the signer or of the API server, or why there is none.
        cause: String,
    },
    /// A source of a projected volume cannot be had.
    #[error("volume {volume:?}: {cause}")]
    OfVolume {
        /// The volume.
        volume: String,
        /// Why not.
        cause: Box<Error>,
    },
    /// An object that a variable is of does not exist.
    #[error("{kind} {name:?} not found")]
    NoObject {
        /// Its kind, as the kubelet writes it: `configmap`, `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An object that a variable is of has no such key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The kind of the object, as the kubelet writes it: `ConfigMap`, `Secret`.
        kind: &'static str,
        /// The namespace of the object.
        namespace: String,
        /// The name of the object.
        name: String,
        /// The key.
        key: String,
    },
    /// The variables of services cannot be made: no services are known yet.
    #[error("the services have not been read from the API server yet: {cause}")]
    Services {
        /// Why not.
        cause: String,
    },
    /// wardlet or this node does not support a field of the pod.
    #[error(transparent)]
    Admission(#[from] admission::Error),
    /// The setup or removal of a volume failed.
    #[error(transparent)]
    Volumes(#[from] volumes::Error),
    /// The files of a configMap, secret, downwardAPI or projected volume cannot be derived from their
    /// sources.
    #[error(transparent)]
    Payload(#[from] volumes::payload::Error),
    /// The ledger failed to lease or release the pod's block of host IDs.
    #[error(transparent)]
    Ledger(#[from] ledger::LedgerError),
    /// The cgroup of a pod, or those of all pods, cannot be made, limited or removed.
    #[error("{}", with_cause(.0))]
    Cgroups(#[from] cgroups::Error),
    /// The node has cgroup v1, and its configuration refuses that.
    #[error("this node has cgroup v1, and failCgroupV1 is true")]
    CgroupV1,
    /// The pod's spec is invalid.
    #[error(transparent)]
    Malformed(#[from] lifecycle::Malformed),
    /// An operation on a file of the state directory failed.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// The operation, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A record in the state directory cannot be read: it is damaged, or another version of wardlet wrote it.
    #[error("{}: {cause}", path.display())]
    Record {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Another process manages the pod: it holds the pod's lock.
    #[error("another process manages pod {pod}")]
    Managed {
        /// The pod.
        pod: String,
    },
    /// A pod of the same name runs with a definition that the new one is not an update of.
    #[error("pod {pod} runs already, with another definition")]
    Other {
        /// The pod.
        pod: String,
    },
    /// The pod's `metadata.uid` belongs to another pod, or to another holder of a lease.
    #[error("pod {pod}: metadata.uid {:?} belongs to {owner}", uid.as_str())]
    UidTaken {
        /// The pod.
        pod: String,
        /// The UID.
        uid: PodUid,
        /// The owner, as far as it is known.
        owner: String,
    },
    /// The block in an adopted pod's record is not the one that the ledger has leased to the pod.
    #[error("pod {pod}: the ledger has another block of host IDs for it than it was started with")]
    OtherBlock {
        /// The pod.
        pod: String,
    },
    /// A kubelet's record of the pod's block is of another one than its sandbox has.
    #[error("pod {pod}: {} records host IDs {recorded}, and its sandbox has {found}", file.display())]
    Contradiction {
        /// The pod.
        pod: String,
        /// The record.
        file: PathBuf,
        /// The host IDs in it.
        recorded: String,
        /// Those of the sandbox, in words.
        found: String,
    },
    /// The pod may not be created: it was admitted only because it ran under this name, and it has ended.
    #[error("pod {pod}: {field}: {cause}")]
    NotAdmitted {
        /// The pod.
        pod: String,
        /// The field.
        field: String,
        /// Why it cannot be honoured.
        cause: String,
        /// What to do about it.
        hint: String,
    },
    /// A container does not get its devices.
    #[error(transparent)]
    Devices(#[from] devices::AllocateError),
    /// A task of the agent panicked or was cancelled before it finished.
    #[error("{what} failed: its task panicked or was cancelled")]
    BrokeOff {
        /// What the task did.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::File { what, path, cause }
    }

    pub(crate) fn config(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::Config { field: field.into(), cause: cause.into() }
    }

    /// The reason of a waiting container, as Kubernetes names it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NeverPull { .. } => reason::ERR_IMAGE_NEVER_PULL,
            Self::ImageName(_) => reason::INVALID_IMAGE_NAME,
            Self::Pull { message, .. } => failed_pull(message),
            Self::Ending { .. } | Self::Superseded { .. } => reason::ERR_IMAGE_PULL,
            Self::Call(CallError::Refused { call: "ImageStatus", .. }) => reason::IMAGE_INSPECT_ERROR,
            Self::Call(CallError::Refused { call: "StartContainer", .. }) => "RunContainerError",
            Self::Call(CallError::Refused { call: "RunPodSandbox", .. }) => "FailedCreatePodSandBox",
            Self::Call(CallError::Refused { call: "CreateContainer", message, .. })
                if message.starts_with(IMAGE_VOLUME_MOUNT_FAILED) =>
            {
                IMAGE_VOLUME_MOUNT_FAILED
            }
            Self::Outside { .. } => "RunContainerError",
            Self::Call(_) => "CreateContainerError",
            _ => "CreateContainerConfigError",
        }
    }

    /// What the user can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Volumes(error) => return error.hint(),
            Self::Ledger(error) => return error.hint(),
            Self::Cgroups(error) => return error.hint(),
            Self::CgroupV1 => {
                "start the host with cgroup v2, or set failCgroupV1 to false in the configuration of the kubelet"
            }
            Self::NotAdmitted { hint, .. } => return Some(hint.clone()),
            Self::Malformed(error) => error.hint(),
            Self::Admission(error) => error.hint(),
            Self::NeverPull { .. } => {
                "import or pull the image first, or set imagePullPolicy to IfNotPresent"
            }
            Self::Resize { .. } => "it is tried again; `kubectl describe pod` shows what the pod asks for",
            Self::Pull { .. } => "check the image's name, and that this node can reach its registry",
            Self::ImageName(_) => "write it as registry/path:tag, in lower case",
            Self::Config { .. } => "add the object to one of the manifests, or make the reference optional",
            Self::HostnameTooLong { .. } => {
                "shorten spec.hostname or spec.subdomain, or unset setHostnameAsFQDN"
            }
            Self::Token { .. } => {
                "check that the service account exists and that this node may request its tokens; the request is repeated"
            }
            Self::TrustBundles { .. } => {
                "create a ClusterTrustBundle, or set optional: true on the source; the pod starts when there is one"
            }
            Self::Certificate { .. } => {
                "check that a controller serves the signer, and its PodCertificateRequests with `kubectl get podcertificaterequests`"
            }
            Self::OfVolume { cause, .. } => return cause.hint(),
            Self::NoObject { .. } | Self::NoKey { .. } => {
                "add the object to one of the manifests, or make the reference optional"
            }
            Self::Services { .. } => {
                "check that the API server can be reached and that this node may list services; the start is repeated"
            }
            Self::Devices(_) => {
                "look at the pods and the log of the device plugin on this node; the start is repeated"
            }
            Self::Managed { .. } => "`wardlet ps` shows it; `wardlet stop` ends it",
            Self::Other { .. } => "end it first with `wardlet stop`, or give this one another name",
            Self::UidTaken { .. } => "remove metadata.uid from the manifest: the pod gets a UID of its own",
            Self::OtherBlock { .. } => "end it with `wardlet stop`, then start it anew",
            Self::Contradiction { .. } => {
                "delete the pod, or remove the file if it is the one that is wrong: the pod keeps what its sandbox has"
            }
            Self::Call(error) => return error.hint().map(str::to_owned),
            Self::Record { .. } => {
                "use the wardlet that wrote it, or move the pod's directory away once nothing of it runs"
            }
            Self::Payload(_) => "add the object to one of the manifests, or make the reference optional",
            Self::Immutable { .. } => {
                "only labels, annotations, images, an earlier activeDeadlineSeconds and more tolerations can; delete the pod and create it anew for the rest"
            }
            Self::Outside { .. } => {
                "update the runtime: CRI-O without the fix of its pull request 10014 forgets the user namespaces of running pods when it restarts"
            }
            Self::File { .. }
            | Self::BrokeOff { .. }
            | Self::Ending { .. }
            | Self::Superseded { .. }
            | Self::Metrics(_) => {
                return None;
            }
        };
        Some(text.to_owned())
    }
}

/// The reason of a failed pull, which a runtime puts before its message.
fn failed_pull(message: &str) -> &'static str {
    let known = [reason::REGISTRY_UNAVAILABLE, reason::SIGNATURE_VALIDATION_FAILED];
    known.into_iter().find(|reason| message.starts_with(reason)).unwrap_or(reason::ERR_IMAGE_PULL)
}

/// The error of a cgroup with the kernel's cause, which its own text lacks.
pub(crate) fn with_cause(error: &cgroups::Error) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::Damaged { path, cause } => Self::Record { path, cause: cause.to_string() },
            Cause::Version { path, found, .. } => {
                Self::Record { path, cause: format!("version {found} is not known here") }
            }
            Cause::TooLarge { ref path, .. }
            | Cause::Untrusted { ref path, .. }
            | Cause::Locked { ref path, .. } => Self::Record { path: path.clone(), cause: error.to_string() },
        }
    }
}
