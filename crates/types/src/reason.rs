//! Reasons of container states, in the words of the kubelet and of CRI runtimes.

/// The container ended with exit code 0.
pub const COMPLETED: &str = "Completed";
/// The container ended with another exit code, or by a signal.
pub const ERROR: &str = "Error";
/// The kernel killed the container because memory ran out.
pub const OOM_KILLED: &str = "OOMKilled";
/// The container was never started, and the pod has no init containers.
pub const CONTAINER_CREATING: &str = "ContainerCreating";
/// The container was never started, and the pod has init containers.
pub const POD_INITIALIZING: &str = "PodInitializing";
/// The image cannot be pulled.
pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
