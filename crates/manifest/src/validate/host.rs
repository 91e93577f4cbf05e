//! What goes with a user namespace and what does not.

use plan::Gate;

use super::pod::Pod;
use super::report::{Report, each};
use crate::place::Path;

pub(super) fn pod(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    if pod.is_isolated {
        namespaces(report, path, pod);
    }
    if pod.spec.share_process_namespace == Some(true) && pod.spec.host_pid == Some(true) {
        report.invalid(
            &path.field("shareProcessNamespace"),
            true,
            "hostPID is set, and only one of them may be",
        );
    }
    match pod.os {
        Some("windows") => windows(report, path, pod),
        Some(other) => report.choice(&path.field("os").field("name"), other, &["linux", "windows"]),
        None => {}
    }
}

fn namespaces(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let host_network_may_be = pod.gates.on(Gate::UserNamespacesHostNetworkSupport);
    let wanted = [
        ("hostNetwork", pod.spec.host_network == Some(true) && !host_network_may_be),
        ("hostPID", pod.spec.host_pid == Some(true)),
        ("hostIPC", pod.spec.host_ipc == Some(true)),
    ];
    for (field, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        report.forbidden(&path.field(field), "not with hostUsers: false");
    }
}

/// Block devices have no owner that could be mapped.
pub(super) fn devices(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    if pod.is_isolated {
        report.forbidden(path, "not with hostUsers: false");
    }
}

/// All of /proc is only safe to see from a user namespace.
pub(super) fn proc_mount(report: &mut Report<'_>, path: &Path<'_>, value: Option<&String>, pod: &Pod<'_>) {
    report.exactly(path, value, &["Default", "Unmasked"]);
    if value.is_some_and(|v| v == "Unmasked") && !pod.is_isolated {
        report.invalid(path, "Unmasked", "only with hostUsers: false");
    }
}

/// A setting that belongs to a user namespace must not be the host's.
pub(super) fn sysctl(report: &mut Report<'_>, path: &Path<'_>, name: &str, pod: &Pod<'_>) {
    let name = name.replace('/', ".");
    if name.starts_with("user.") && !pod.is_isolated {
        report.forbidden(path, "a setting of user namespaces, only with hostUsers: false");
    }
    if name.starts_with("net.") && pod.spec.host_network == Some(true) {
        report.invalid(path, &name, "not with hostNetwork: true");
    }
    let is_ipc = name.starts_with("kernel.shm")
        || name.starts_with("kernel.msg")
        || name.starts_with("fs.mqueue.")
        || name == "kernel.sem";
    if is_ipc && pod.spec.host_ipc == Some(true) {
        report.invalid(path, &name, "not with hostIPC: true");
    }
}

/// Fields that a pod for Windows may not have.
fn windows(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let spec = pod.spec;
    let context = spec.security_context.clone().unwrap_or_default();
    let own = [
        ("hostPID", spec.host_pid == Some(true)),
        ("hostIPC", spec.host_ipc == Some(true)),
        ("hostUsers", spec.host_users.is_some()),
        ("shareProcessNamespace", spec.share_process_namespace.is_some()),
    ];
    let inner = [
        ("appArmorProfile", context.app_armor_profile.is_some()),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        ("seLinuxChangePolicy", context.se_linux_change_policy.is_some()),
        ("seccompProfile", context.seccomp_profile.is_some()),
        ("fsGroup", context.fs_group.is_some()),
        ("fsGroupChangePolicy", context.fs_group_change_policy.is_some()),
        ("sysctls", context.sysctls.is_some_and(|s| !s.is_empty())),
        ("runAsUser", context.run_as_user.is_some()),
        ("runAsGroup", context.run_as_group.is_some()),
        ("supplementalGroups", context.supplemental_groups.is_some()),
        ("supplementalGroupsPolicy", context.supplemental_groups_policy.is_some()),
    ];
    forbid(report, path, &own);
    forbid(report, &path.field("securityContext"), &inner);
    for (index, container) in spec.containers.iter().enumerate() {
        container_on_windows(
            report,
            &path.field("containers").index(index),
            container.security_context.as_ref(),
        );
    }
    for (index, container) in each(spec.init_containers.as_ref()) {
        container_on_windows(
            report,
            &path.field("initContainers").index(index),
            container.security_context.as_ref(),
        );
    }
}

fn container_on_windows(
    report: &mut Report<'_>,
    path: &Path<'_>,
    context: Option<&k8s_openapi::api::core::v1::SecurityContext>,
) {
    let Some(context) = context else { return };
    let fields = [
        ("appArmorProfile", context.app_armor_profile.is_some()),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        ("seccompProfile", context.seccomp_profile.is_some()),
        ("capabilities", context.capabilities.is_some()),
        ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
        ("privileged", context.privileged.is_some()),
        ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
        ("procMount", context.proc_mount.is_some()),
        ("runAsUser", context.run_as_user.is_some()),
        ("runAsGroup", context.run_as_group.is_some()),
    ];
    forbid(report, &path.field("securityContext"), &fields);
}

fn forbid(report: &mut Report<'_>, path: &Path<'_>, fields: &[(&str, bool)]) {
    for (field, _) in fields.iter().filter(|(_, is_set)| *is_set) {
        report.forbidden(&path.field(field), "not in a pod for Windows");
    }
}
