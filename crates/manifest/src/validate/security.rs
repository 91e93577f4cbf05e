use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use plan::Gate;

use super::report::{Report, each};
use super::{host, names, pod::Pod, windows};
use crate::place::Path;

/// A container sees IDs up to this one in a pod's fields.
const MAX_ID: i64 = 2_147_483_647;

pub(super) fn pod(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    windows::host_processes(report, path, pod);
    let Some(context) = pod.spec.security_context.as_ref() else { return };
    let path = path.field("securityContext");
    id(report, &path.field("runAsUser"), context.run_as_user);
    id(report, &path.field("runAsGroup"), context.run_as_group);
    id(report, &path.field("fsGroup"), context.fs_group);
    for (index, group) in each(context.supplemental_groups.as_ref()) {
        id(report, &path.field("supplementalGroups").index(index), Some(*group));
    }
    report.exactly(
        &path.field("fsGroupChangePolicy"),
        context.fs_group_change_policy.as_ref(),
        &["OnRootMismatch", "Always"],
    );
    report.exactly(
        &path.field("supplementalGroupsPolicy"),
        context.supplemental_groups_policy.as_ref(),
        &["Merge", "Strict"],
    );
    change_policy(report, &path, context, pod);
    sysctls(report, &path.field("sysctls"), context, pod);
    let seccomp =
        context.seccomp_profile.as_ref().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref()));
    seccomp_profile(report, &path.field("seccompProfile"), seccomp);
    let apparmor =
        context.app_armor_profile.as_ref().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref()));
    apparmor_profile(report, &path.field("appArmorProfile"), apparmor);
    windows::options(report, &path.field("windowsOptions"), context.windows_options.as_ref());
    if context.windows_options.is_some() && pod.os == Some("linux") {
        report.forbidden(&path.field("windowsOptions"), "not in a pod for Linux");
    }
}

pub(super) fn container(report: &mut Report<'_>, path: &Path<'_>, context: &SecurityContext, pod: &Pod<'_>) {
    id(report, &path.field("runAsUser"), context.run_as_user);
    id(report, &path.field("runAsGroup"), context.run_as_group);
    host::proc_mount(report, &path.field("procMount"), context.proc_mount.as_ref(), pod);
    let seccomp =
        context.seccomp_profile.as_ref().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref()));
    seccomp_profile(report, &path.field("seccompProfile"), seccomp);
    let apparmor =
        context.app_armor_profile.as_ref().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref()));
    apparmor_profile(report, &path.field("appArmorProfile"), apparmor);
    escalation(report, &path.field("allowPrivilegeEscalation"), context);
    windows::options(report, &path.field("windowsOptions"), context.windows_options.as_ref());
    if context.windows_options.is_some() && pod.os == Some("linux") {
        report.forbidden(&path.field("windowsOptions"), "not in a pod for Linux");
    }
}

fn id(report: &mut Report<'_>, path: &Path<'_>, id: Option<i64>) {
    if let Some(id) = id.filter(|id| !(0..=MAX_ID).contains(id)) {
        report.invalid(path, id, "must be from 0 to 2147483647");
    }
}

/// With the gate SELinuxMount off, only `Recursive` is taken; with SELinuxChangePolicy off, the field
/// is known but says nothing.
fn change_policy(report: &mut Report<'_>, path: &Path<'_>, context: &PodSecurityContext, pod: &Pod<'_>) {
    let path = path.field("seLinuxChangePolicy");
    let is_narrow = pod.gates.on(Gate::SelinuxChangePolicy) && !pod.gates.on(Gate::SelinuxMount);
    let allowed: &[&'static str] = if is_narrow { &["Recursive"] } else { &["MountOption", "Recursive"] };
    match context.se_linux_change_policy.as_ref() {
        Some(policy) if policy.is_empty() => report.required(&path),
        policy => report.one_of(&path, policy, allowed),
    }
}

fn sysctls(report: &mut Report<'_>, path: &Path<'_>, context: &PodSecurityContext, pod: &Pod<'_>) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in each(context.sysctls.as_ref()) {
        let item = path.index(index);
        let path = item.field("name");
        report.needs(&path, &sysctl.name, names::sysctl);
        report.once(&path, &sysctl.name, &mut seen);
        host::sysctl(report, &path, &sysctl.name, pod);
    }
}

type Profile<'a> = Option<(&'a str, Option<&'a str>)>;

fn seccomp_profile(report: &mut Report<'_>, path: &Path<'_>, profile: Profile<'_>) {
    local_profile(report, path, profile, names::local_path);
}

fn apparmor_profile(report: &mut Report<'_>, path: &Path<'_>, profile: Profile<'_>) {
    local_profile(report, path, profile, names::trimmed);
}

fn local_profile(report: &mut Report<'_>, path: &Path<'_>, profile: Profile<'_>, rule: super::report::Rule) {
    let Some((kind, file)) = profile else { return };
    let file_path = path.field("localhostProfile");
    match kind {
        "" => report.required(&path.field("type")),
        "Localhost" => report.needs(&file_path, file.unwrap_or_default(), rule),
        _ => {
            report.one_of(
                &path.field("type"),
                Some(&kind.to_owned()),
                &["Localhost", "RuntimeDefault", "Unconfined"],
            );
            if file.is_some() {
                report.forbidden(&file_path, "only with type Localhost");
            }
        }
    }
}

/// A container that has all powers cannot be kept from getting more.
fn escalation(report: &mut Report<'_>, path: &Path<'_>, context: &SecurityContext) {
    if context.allow_privilege_escalation != Some(false) {
        return;
    }
    if context.privileged == Some(true) {
        report.invalid(path, false, "not with privileged: true");
    }
    let added = context.capabilities.iter().flat_map(|c| c.add.iter().flatten());
    if added.into_iter().any(|capability| capability == "CAP_SYS_ADMIN") {
        report.invalid(path, false, "not with the capability CAP_SYS_ADMIN");
    }
}
