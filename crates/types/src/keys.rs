//! Keys of annotations and labels that more than one crate reads or writes.

/// Annotation of a pod: the runtime wrapper runs it in a user namespace (`true`).
pub const USER_NAMESPACE: &str = "wardlet.dev/user-namespace";
/// Annotation of a pod: how many IDs its user namespace has.
pub const IDS: &str = "wardlet.dev/ids";
/// Annotation of a pod: what becomes of volumes that cannot be idmapped.
pub const VOLUME_POLICY: &str = "wardlet.dev/volume-policy";

/// Annotation of sandboxes and containers: the ID of the state directory of the agent that created them.
pub const INSTANCE: &str = "wardlet.dev/instance";

/// Annotation of gVisor's: runs a pod in a user namespace (`true`).
pub const GVISOR_USER_NAMESPACE: &str = "dev.gvisor.spec.user-namespace";
/// Annotations of CRI-O's: run a pod in a user namespace (`auto`), the older one first.
pub const CRIO_USER_NAMESPACE: [&str; 2] = ["io.kubernetes.cri-o.userns-mode", "userns-mode.crio.io"];

/// All annotations by which a pod can ask the runtime wrapper for a user namespace.
pub const ASKING: [&str; 4] = {
    let [older, newer] = CRIO_USER_NAMESPACE;
    [USER_NAMESPACE, GVISOR_USER_NAMESPACE, older, newer]
};

/// Label of sandboxes and containers: the UID of their pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label of containers: their name in the pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Annotation of an OCI container, as containerd writes it: `sandbox` or `container`.
pub const CRI_CONTAINER_TYPE: &str = "io.kubernetes.cri.container-type";
/// Annotation of an OCI container: the ID of its sandbox.
pub const CRI_SANDBOX_ID: &str = "io.kubernetes.cri.sandbox-id";
/// Annotation of an OCI container: the namespace of its pod.
pub const CRI_SANDBOX_NAMESPACE: &str = "io.kubernetes.cri.sandbox-namespace";
/// Annotation of an OCI container: the name of its pod.
pub const CRI_SANDBOX_NAME: &str = "io.kubernetes.cri.sandbox-name";
/// Annotation of an OCI container: the UID of its pod.
pub const CRI_SANDBOX_UID: &str = "io.kubernetes.cri.sandbox-uid";
