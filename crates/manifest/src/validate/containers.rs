use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

use super::report::{Report, each};
use super::{env, mounts, names, pod::Pod, ports, probes, resources, security};
use crate::place::Path;

/// Which of a pod's lists a container is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Init,
    /// An init container that goes on beside the others.
    Sidecar,
    Main,
    Ephemeral,
}

/// A container with its role.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) container: &'a Container,
    pub(super) role: Role,
}

impl Role {
    pub(super) fn of_init(container: &Container) -> Self {
        if container.restart_policy.as_deref() == Some("Always") { Self::Sidecar } else { Self::Init }
    }
}

pub(super) fn all(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let mut seen = BTreeSet::new();
    let (main, init) = (path.field("containers"), path.field("initContainers"));
    if pod.spec.containers.is_empty() {
        report.required(&main);
    }
    for (index, container) in pod.spec.containers.iter().enumerate() {
        let path = main.index(index);
        report.once(&path.field("name"), &container.name, &mut seen);
        one(report, &path, Member { container, role: Role::Main }, pod);
    }
    for (index, container) in each(pod.spec.init_containers.as_ref()) {
        let path = init.index(index);
        report.once(&path.field("name"), &container.name, &mut seen);
        one(report, &path, Member { container, role: Role::of_init(container) }, pod);
    }
    let has_debug = pod.spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty());
    if has_debug && !(pod.is_pod && pod.is_stored) {
        report.forbidden(&path.field("ephemeralContainers"), "they are added to a pod that runs");
    }
    for (index, container) in each(pod.spec.ephemeral_containers.as_ref()) {
        let list = path.field("ephemeralContainers");
        let path = list.index(index);
        report.once(&path.field("name"), &container.name, &mut seen);
        let as_other = as_container(container);
        one(report, &path, Member { container: &as_other, role: Role::Ephemeral }, pod);
        target(report, &path, container, pod);
    }
    ports::host_ports(report, path, pod);
}

fn one(report: &mut Report<'_>, path: &Path<'_>, member: Member<'_>, pod: &Pod<'_>) {
    let Member { container, role } = member;
    report.needs(&path.field("name"), &container.name, names::dns_label);
    let rule: super::report::Rule = if pod.is_pod { names::trimmed } else { |_| Ok(()) };
    report.needs(&path.field("image"), container.image.as_deref().unwrap_or_default(), rule);
    report.one_of(
        &path.field("imagePullPolicy"),
        container.image_pull_policy.as_ref(),
        &["Always", "IfNotPresent", "Never"],
    );
    report.one_of(
        &path.field("terminationMessagePolicy"),
        container.termination_message_policy.as_ref(),
        &["File", "FallbackToLogsOnError"],
    );
    restart_rules(report, path, container);
    resize_policy(report, &path.field("resizePolicy"), member, pod);
    ports::ports(report, &path.field("ports"), member, pod);
    env::env(report, path, container, pod);
    mounts::mounts(report, path, container, pod);
    mounts::devices(report, path, container, pod);
    if role != Role::Ephemeral {
        probes::all(report, path, member, pod);
    }
    let resources = container.resources.as_ref();
    resources::requirements(report, &path.field("resources"), resources, resources::Of::Container);
    let claims = resources.and_then(|r| r.claims.as_ref());
    let field = path.field("resources");
    resources::claims(report, &field.field("claims"), claims, pod.spec.resource_claims.as_ref());
    if let Some(context) = container.security_context.as_ref() {
        security::container(report, &path.field("securityContext"), context, pod);
    }
    if role == Role::Ephemeral {
        ephemeral(report, path, container);
    }
}

fn restart_rules(report: &mut Report<'_>, path: &Path<'_>, container: &Container) {
    let policy = container.restart_policy.as_ref();
    report.exactly(&path.field("restartPolicy"), policy, &["Always", "OnFailure", "Never"]);
    let rules = container.restart_policy_rules.as_ref();
    let path = path.field("restartPolicyRules");
    if rules.is_some_and(|r| !r.is_empty()) && policy.is_none() {
        report.forbidden(&path, "only with a restartPolicy of the container");
    }
    report.at_most(&path, rules.map_or(0, Vec::len), 20);
    for (index, rule) in each(rules) {
        let path = path.index(index);
        report.choice(&path.field("action"), &rule.action, &["Restart", "RestartAllContainers"]);
        let Some(codes) = rule.exit_codes.as_ref() else {
            report.required(&path.field("exitCodes"));
            continue;
        };
        let path = path.field("exitCodes");
        report.choice(&path.field("operator"), &codes.operator, &["In", "NotIn"]);
        report.at_most(&path.field("values"), codes.values.as_ref().map_or(0, Vec::len), 255);
    }
}

/// Whether a container is started again when its resources change.
fn resize_policy(report: &mut Report<'_>, path: &Path<'_>, member: Member<'_>, pod: &Pod<'_>) {
    let Member { container, role } = member;
    let mut seen = BTreeSet::new();
    let is_never = pod.spec.restart_policy.as_deref() == Some("Never");
    for (index, policy) in each(container.resize_policy.as_ref()) {
        let path = path.index(index);
        report.choice(&path.field("resourceName"), &policy.resource_name, &["cpu", "memory"]);
        report.once(&path.field("resourceName"), &policy.resource_name, &mut seen);
        let restart = path.field("restartPolicy");
        report.choice(&restart, &policy.restart_policy, &["NotRequired", "RestartContainer"]);
        if policy.restart_policy == "RestartContainer" && (is_never || role == Role::Init) {
            report.forbidden(&restart, "only in a container that is started again");
        }
    }
}

/// An ephemeral container has no probes, hooks or ports.
fn ephemeral(report: &mut Report<'_>, path: &Path<'_>, container: &Container) {
    let fields = [
        ("ports", container.ports.as_ref().is_some_and(|p| !p.is_empty())),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
        (
            "resources",
            container.resources.as_ref().is_some_and(|r| r.limits.is_some() || r.requests.is_some()),
        ),
        ("restartPolicy", container.restart_policy.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        report.forbidden(&path.field(field), "not in an ephemeral container");
    }
    for (index, mount) in each(container.volume_mounts.as_ref()) {
        let list = path.field("volumeMounts");
        let path = list.index(index);
        if mount.sub_path.as_ref().is_some_and(|p| !p.is_empty()) {
            report.forbidden(&path.field("subPath"), "not in an ephemeral container");
        }
        if mount.sub_path_expr.as_ref().is_some_and(|p| !p.is_empty()) {
            report.forbidden(&path.field("subPathExpr"), "not in an ephemeral container");
        }
    }
}

fn target(report: &mut Report<'_>, path: &Path<'_>, container: &EphemeralContainer, pod: &Pod<'_>) {
    let Some(name) = container.target_container_name.as_ref().filter(|n| !n.is_empty()) else { return };
    let main = pod.spec.containers.iter();
    let init = pod.spec.init_containers.iter().flatten();
    if !main.chain(init).any(|c| c.name == *name) {
        let problem = crate::finding::Problem::NotFound { what: "container", name: name.clone() };
        report.add(&path.field("targetContainerName"), problem);
    }
}

/// The fields that an ephemeral container has in common with the others: all but its target.
#[must_use]
pub fn as_container(container: &EphemeralContainer) -> Container {
    let c = container.clone();
    Container {
        args: c.args,
        command: c.command,
        env: c.env,
        env_from: c.env_from,
        image: c.image,
        image_pull_policy: c.image_pull_policy,
        lifecycle: c.lifecycle,
        liveness_probe: c.liveness_probe,
        name: c.name,
        ports: c.ports,
        readiness_probe: c.readiness_probe,
        resize_policy: c.resize_policy,
        resources: c.resources,
        restart_policy: c.restart_policy,
        restart_policy_rules: c.restart_policy_rules,
        security_context: c.security_context,
        startup_probe: c.startup_probe,
        stdin: c.stdin,
        stdin_once: c.stdin_once,
        termination_message_path: c.termination_message_path,
        termination_message_policy: c.termination_message_policy,
        tty: c.tty,
        volume_devices: c.volume_devices,
        volume_mounts: c.volume_mounts,
        working_dir: c.working_dir,
    }
}
