use k8s_openapi::api::core::v1::SecurityContext;

use super::{Subject, Violation, baseline, violation};
use crate::validate::volume_kinds;

/// Volumes of the cluster's own making, or of its administrator's.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// What the restricted level does not allow: the baseline's checks, some of them replaced by stricter ones.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = baseline::at_both_levels(subject);
    found.extend(volumes(subject));
    // A user namespace relaxes the baseline's check from 1.35 on, and never this one.
    let proc_mount = if subject.since(35) { "procMount_restricted" } else { "procMount" };
    found.extend(baseline::proc_mounts(subject, proc_mount));
    // Windows has neither, and from 1.25 on the standard does not look for them.
    if !subject.is_windows() {
        found.extend(escalation(subject));
        found.extend(capabilities(subject));
        found.extend(seccomp(subject));
    }
    // Root of a user namespace is an unprivileged user of the host.
    if !subject.is_relaxed() {
        found.extend(non_root(subject));
        found.extend(root_user(subject));
    }
    found
}

/// A volume without a source becomes an emptyDir before the API server looks at it.
fn volumes(subject: &Subject<'_>) -> Vec<Violation> {
    let volumes = subject.pod.spec.volumes.iter().flatten().enumerate();
    let bad = volumes.filter_map(|(i, volume)| {
        let mut kinds = volume_kinds(volume).filter(|(_, is_set)| *is_set).map(|(kind, _)| kind);
        let first = kinds.next()?;
        (!VOLUMES.contains(&first) && !kinds.any(|kind| VOLUMES.contains(&kind))).then_some((i, first))
    });
    bad.map(|(i, kind)| violation("restrictedVolumes", subject.pod.field(&format!("volumes[{i}]")), kind))
        .collect()
}

fn escalation(subject: &Subject<'_>) -> Vec<Violation> {
    let bad = subject.contexts().filter(|(_, c)| c.and_then(|c| c.allow_privilege_escalation) != Some(false));
    let field = |f: String| format!("{f}.allowPrivilegeEscalation");
    bad.map(|(f, _)| violation("allowPrivilegeEscalation", field(f), "anything but false")).collect()
}

fn capabilities(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (field, context) in subject.contexts() {
        let own = context.and_then(|c| c.capabilities.as_ref());
        let drops_all = own.is_some_and(|c| c.drop.iter().flatten().any(|name| name == "ALL"));
        if !drops_all {
            let field = format!("{field}.capabilities.drop");
            found.push(violation("capabilities_restricted", field, "a list without ALL"));
        }
        let added =
            own.iter().flat_map(|c| c.add.iter().flatten()).filter(|name| *name != "NET_BIND_SERVICE");
        found.extend(
            added.map(|name| violation("capabilities_restricted", format!("{field}.capabilities.add"), name)),
        );
    }
    found
}

fn seccomp(subject: &Subject<'_>) -> Vec<Violation> {
    let check = "seccompProfile_restricted";
    let mut found = baseline::seccomp(subject, check);
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.seccomp_profile.as_ref());
    if pod.is_none() {
        let without = subject.contexts().filter(|(_, c)| c.is_none_or(|c| c.seccomp_profile.is_none()));
        let field = |f: String| format!("{f}.seccompProfile.type");
        found.extend(without.map(|(f, _)| violation(check, field(f), "no profile")));
    }
    found
}

/// A pod must not say false, even where each of its containers says true.
fn non_root(subject: &Subject<'_>) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.run_as_non_root);
    let pod_field = (pod == Some(false)).then(|| subject.pod.field("securityContext"));
    let own = |c: Option<&SecurityContext>| c.and_then(|c| c.run_as_non_root).or(pod);
    let bad = subject.contexts().filter(|(_, c)| own(*c) != Some(true)).map(|(f, _)| f);
    let all = pod_field.into_iter().chain(bad);
    all.map(|f| violation("runAsNonRoot", format!("{f}.runAsNonRoot"), "anything but true")).collect()
}

fn root_user(subject: &Subject<'_>) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.run_as_user);
    let pod = pod.filter(|id| *id == 0).map(|_| subject.pod.field("securityContext"));
    let own = subject.contexts().filter(|(_, c)| c.and_then(|c| c.run_as_user) == Some(0)).map(|(f, _)| f);
    pod.into_iter().chain(own).map(|f| violation("runAsUser", format!("{f}.runAsUser"), 0)).collect()
}
