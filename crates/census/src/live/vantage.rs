//! From where we look: the kernel shows host IDs and all tasks only to a reader in the initial user
//! and PID namespaces.

use std::fs;

use crate::host_root::HostRoot;

/// Fixed by the kernel's ABI (`PROC_USER_INIT_INO`, `PROC_PID_INIT_INO`).
pub(super) const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether proc shows tasks by the numbers that we know them by ourselves. Nothing is known of one without
/// `self`.
pub(super) fn numbers_are_ours(root: &HostRoot) -> bool {
    let own = fs::read_link(root.path("/proc/self/ns/pid"));
    own.is_ok_and(|link| link.as_os_str() == format!("pid:[{INITIAL_PID_NAMESPACE}]").as_str())
}

/// What cannot be seen from here whatever the rights. Nothing is known of a proc without `self`.
pub(super) fn limits(root: &HostRoot) -> Vec<String> {
    let own = |kind: &str| fs::read_link(root.path(format!("/proc/self/ns/{kind}"))).ok();
    let differs = |kind: &str, initial: u64| {
        own(kind).is_some_and(|link| link.as_os_str() != format!("{kind}:[{initial}]").as_str())
    };
    let mut limits = Vec::new();
    if differs("user", INITIAL_USER_NAMESPACE) {
        limits.push("this process is in a user namespace and is shown no host IDs; run it outside".into());
    }
    if differs("pid", INITIAL_PID_NAMESPACE) {
        limits.push(
            "proc shows only the processes of a PID namespace; run in the host's, with the host's proc"
                .into(),
        );
    }
    if own("user").is_some() && fs::symlink_metadata(root.path("/proc/1")).is_err() {
        limits.push("proc hides other users' processes (mount option hidepid); run as root".into());
    }
    limits
}
