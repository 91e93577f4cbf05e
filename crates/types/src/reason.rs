//! Reasons of container states and of events, in the words of the kubelet and of CRI runtimes.

/// The container ended with exit code 0.
pub const COMPLETED: &str = "Completed";
/// The container ended with another exit code, or by a signal.
pub const ERROR: &str = "Error";
/// The kernel killed the container because memory ran out.
pub const OOM_KILLED: &str = "OOMKilled";
/// A pod that asks for a user namespace runs without one, because the operator switched it off.
pub const USER_NAMESPACE_DISABLED: &str = "UserNamespaceDisabled";
/// The container was never started, and the pod has no init containers.
pub const CONTAINER_CREATING: &str = "ContainerCreating";
/// The container was never started, and the pod has init containers.
pub const POD_INITIALIZING: &str = "PodInitializing";
/// The image is not on the node, and must not be pulled.
pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
/// The image cannot be pulled.
pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
/// The registry cannot be reached: a pull failed.
pub const REGISTRY_UNAVAILABLE: &str = "RegistryUnavailable";
/// The signature of the image is not valid: a pull failed.
pub const SIGNATURE_VALIDATION_FAILED: &str = "SignatureValidationFailed";
/// The name of the image is none.
pub const INVALID_IMAGE_NAME: &str = "InvalidImageName";
/// The runtime cannot tell whether it has the image.
pub const IMAGE_INSPECT_ERROR: &str = "ImageInspectError";
/// Event: whether the node has an image cannot be found out.
pub const INSPECT_FAILED: &str = "InspectFailed";
/// Event: a pull failed, and a secret with credentials is missing.
pub const FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET: &str = "FailedToRetrieveImagePullSecret";
/// Event: a container or a pull is tried again later.
pub const BACK_OFF: &str = "BackOff";
/// Event: the certificate of a pod has expired, and there is no other one.
pub const CERTIFICATE_EXPIRED: &str = "CertificateExpired";
/// Event: the certificate of a pod should have been replaced.
pub const CERTIFICATE_OVERDUE: &str = "CertificateOverdueForRefresh";
/// Event: the container was created.
pub const CREATED: &str = "Created";
/// The container ended and is started again later.
pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
/// Event: servers or search domains of the pod are left out, because there are too many.
pub const DNS_CONFIG_FORMING: &str = "DNSConfigForming";
/// Event: a signer does not issue a certificate for the pod.
pub const DENIED: &str = "Denied";
/// Event and pod: the pod was active for longer than activeDeadlineSeconds.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// Event and pod: the node ended the pod because it runs short of something, or because the pod uses more local storage than
/// its limits.
pub const EVICTED: &str = "Evicted";
/// Event of the node: it runs short of something.
pub const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
/// Event: the containers of an evicted pod did not end in time.
pub const EXCEEDED_GRACE_PERIOD: &str = "ExceededGracePeriod";
/// Event: a container could not be created or started, its image not pulled, or a certificate of the pod not issued.
pub const FAILED: &str = "Failed";
/// Event: the cgroup of the pod could not be made.
pub const FAILED_CREATE_POD_CONTAINER: &str = "FailedCreatePodContainer";
/// Event: the sandbox could not be made.
pub const FAILED_CREATE_POD_SANDBOX: &str = "FailedCreatePodSandBox";
/// Event: a container or sandbox could not be stopped or removed.
pub const FAILED_KILL_POD: &str = "FailedKillPod";
/// Event: a volume could not be set up or updated.
pub const FAILED_MOUNT: &str = "FailedMount";
/// Event: the devices of a pod's resource claims cannot be had.
pub const FAILED_PREPARE_DYNAMIC_RESOURCES: &str = "FailedPrepareDynamicResources";
/// Event of the node: too few images can be removed.
pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
/// Event: the postStart hook failed.
pub const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
/// Event: the preStop hook failed.
pub const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
/// Event of the node: images cannot be removed.
pub const IMAGE_GC_FAILED: &str = "ImageGCFailed";
/// The image could not be pulled and is tried again later.
pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
/// Event of the node: the filesystem of images has no size.
pub const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
/// Event: a container is stopped.
pub const KILLING: &str = "Killing";
/// Event: the pod asks for the cluster's DNS, and the node knows no server of it.
pub const MISSING_CLUSTER_DNS: &str = "MissingClusterDNS";
/// Event: a pod waits for the network of the node.
pub const NETWORK_NOT_READY: &str = "NetworkNotReady";
/// Event and pod: the pod was ended so that a critical pod fits on the node.
pub const PREEMPTING: &str = "Preempting";
/// Event: a probe succeeded with a warning.
pub const PROBE_WARNING: &str = "ProbeWarning";
/// Event: the image was pulled.
pub const PULLED: &str = "Pulled";
/// Event: the image is being pulled.
pub const PULLING: &str = "Pulling";
/// Event: a running pod has its new resources.
pub const RESIZE_COMPLETED: &str = "ResizeCompleted";
/// Event: a running pod cannot be given its new resources now.
pub const RESIZE_DEFERRED: &str = "ResizeDeferred";
/// Event: giving a running pod its new resources failed; it is tried again.
pub const RESIZE_ERROR: &str = "ResizeError";
/// Event: a running pod cannot have the resources that it asks for.
pub const RESIZE_INFEASIBLE: &str = "ResizeInfeasible";
/// Event: a running pod gets other resources.
pub const RESIZE_STARTED: &str = "ResizeStarted";
/// Event: the sandbox is lost or no longer fits.
pub const SANDBOX_CHANGED: &str = "SandboxChanged";
/// Event: the container was started.
pub const STARTED: &str = "Started";
/// Event: the pod has fields that the agent does not know.
pub const UNKNOWN_FIELD: &str = "UnknownField";
/// Event: a probe failed.
pub const UNHEALTHY: &str = "Unhealthy";

/// Whether a container waits for this reason because the pull of its image failed: the pull is tried again after ever
/// longer delays.
#[must_use]
pub fn is_failed_pull(reason: &str) -> bool {
    matches!(reason, ERR_IMAGE_PULL | REGISTRY_UNAVAILABLE | SIGNATURE_VALIDATION_FAILED)
}
