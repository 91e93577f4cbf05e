use k8s_openapi::api::core::v1::SecurityContext;

use super::{Subject, Violation, violation};
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

pub(super) fn check(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = volumes(subject);
    // Windows has neither, and from 1.25 on the standard knows.
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

fn volumes(subject: &Subject<'_>) -> Vec<Violation> {
    let volumes = subject.pod.spec.volumes.iter().flatten().enumerate();
    let kinds = volumes.filter_map(|(i, v)| Some((i, volume_kinds(v).find(|(_, is_set)| *is_set)?.0)));
    let bad = kinds.filter(|(_, kind)| !VOLUMES.contains(kind));
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

/// What every container must have, its own or through its pod.
fn everywhere<T>(
    subject: &Subject<'_>,
    pod: Option<&T>,
    own: impl Fn(&SecurityContext) -> Option<T>,
) -> Vec<(String, Option<T>)>
where
    T: Clone,
{
    let contexts = subject.contexts();
    contexts.map(|(field, c)| (field, c.and_then(&own).or_else(|| pod.cloned()))).collect()
}

fn seccomp(subject: &Subject<'_>) -> Vec<Violation> {
    let context = subject.pod.spec.security_context.as_ref();
    let pod = context.and_then(|c| c.seccomp_profile.clone()).map(|p| p.type_);
    let all = everywhere(subject, pod.as_ref(), |c| c.seccomp_profile.clone().map(|p| p.type_));
    let missing = all.into_iter().filter(|(_, kind)| kind.is_none());
    let field = |f: String| format!("{f}.seccompProfile.type");
    missing.map(|(f, _)| violation("seccompProfile_restricted", field(f), "no profile")).collect()
}

fn non_root(subject: &Subject<'_>) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.run_as_non_root);
    let all = everywhere(subject, pod.as_ref(), |c| c.run_as_non_root);
    let bad = all.into_iter().filter(|(_, value)| *value != Some(true));
    bad.map(|(f, _)| violation("runAsNonRoot", format!("{f}.runAsNonRoot"), "anything but true")).collect()
}

fn root_user(subject: &Subject<'_>) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.run_as_user);
    let pod = pod.filter(|id| *id == 0).map(|_| subject.pod.field("securityContext"));
    let own = subject.contexts().filter(|(_, c)| c.and_then(|c| c.run_as_user) == Some(0)).map(|(f, _)| f);
    pod.into_iter().chain(own).map(|f| violation("runAsUser", format!("{f}.runAsUser"), 0)).collect()
}
