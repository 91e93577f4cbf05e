use conflicts::Placement;
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec};
use manifest::{Cluster, Finding, Level, PodRef, Violation as Found};
use plan::Intent;
use types::{is_extended_resource, keys};

use crate::chunk::Lens;
use crate::driver_signs::DriverSigns;
use crate::object::{PodSecurity, Violation};
use crate::placement::placement;

/// Annotations by which other tools are asked for a user namespace.
pub(crate) const ANNOTATIONS: [(&str, &str); 5] = [
    (keys::CRIO_USER_NAMESPACE[0], "CRI-O"),
    (keys::CRIO_USER_NAMESPACE[1], "CRI-O"),
    ("io.podman.annotations.userns", "podman"),
    (keys::GVISOR_USER_NAMESPACE, "gVisor"),
    (keys::USER_NAMESPACE, "the runtime wrapper"),
];

/// What is kept of a pod, or of what a workload makes its pods from.
#[derive(Debug, Clone)]
pub struct Template {
    /// What it wants, with claims and runtime classes by their names only.
    pub intent: Intent,
    /// What stands before a field of the pod's spec: `spec.template.spec.`
    pub root: String,
    /// Annotations of [`ANNOTATIONS`] that it has.
    pub annotations: Vec<Annotation>,
    /// What it wants of device plugins.
    pub devices: Vec<Device>,
    /// Settings of the kernel whose IDs a user namespace may not have.
    pub ping_groups: Option<Sysctl>,
    /// Whether its pods are for Windows nodes.
    pub is_windows: bool,
    /// The level of the Pod Security Standards that it keeps to.
    pub pod_security: PodSecurity,
    pub(crate) placement: Placement,
    /// By what it is known as the node part of a CSI driver.
    pub driver_signs: DriverSigns,
}

/// An annotation by which another tool is asked for a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The annotation's key.
    pub name: &'static str,
    /// The tool that reads it.
    pub tool: &'static str,
    /// Its value.
    pub value: String,
}

/// A device that a container wants from a device plugin or by a resource claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The field that asks for it.
    pub field: String,
    /// The name of the resource or the claim.
    pub name: String,
}

/// A sysctl that a pod sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// The field that sets it.
    pub field: String,
    /// Its value.
    pub value: String,
}

impl Template {
    pub(crate) fn of(pod: &PodRef<'_>, lens: &Lens) -> Result<Self, Vec<Finding>> {
        let spec = pod.spec;
        let root = pod.field("");
        Ok(Self {
            intent: manifest::lower(pod, &Cluster::default())?,
            annotations: annotations(pod),
            devices: devices(spec, &root),
            ping_groups: ping_groups(spec, &root),
            is_windows: spec.os.as_ref().is_some_and(|os| os.name == "windows"),
            pod_security: pod_security(pod, lens),
            placement: placement(pod, Some(pod.object.resource.kind()).filter(|kind| *kind != "Pod")),
            driver_signs: DriverSigns::of(spec),
            root,
        })
    }

    /// The field of the pod's own annotations: `spec.template.metadata.annotations`.
    #[must_use]
    pub fn annotations_field(&self) -> String {
        let above = self.root.strip_suffix("spec.").unwrap_or_default();
        format!("{above}metadata.annotations")
    }
}

fn annotations(pod: &PodRef<'_>) -> Vec<Annotation> {
    let all = pod.metadata.and_then(|m| m.annotations.as_ref());
    let get = |(name, tool): (&'static str, &'static str)| {
        let value = all?.get(name)?.clone();
        Some(Annotation { name, tool, value })
    };
    ANNOTATIONS.into_iter().filter_map(get).collect()
}

fn devices(spec: &PodSpec, root: &str) -> Vec<Device> {
    let of = |(list, index, container): (&str, usize, &Container)| {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|r| r.limits.as_ref());
        let names = limits.into_iter().flatten().map(|(name, _)| name).filter(|n| is_extended_resource(n));
        let field = format!("{root}{list}[{index}].resources.limits");
        let plugins = names.map(|n| Device { field: format!("{field}[{n}]"), name: n.clone() });
        let claims = resources.and_then(|r| r.claims.as_ref()).into_iter().flatten().enumerate();
        let field = format!("{root}{list}[{index}].resources.claims");
        let claims = claims.map(|(i, c)| Device { field: format!("{field}[{i}]"), name: c.name.clone() });
        plugins.chain(claims).collect::<Vec<_>>()
    };
    let init = spec.init_containers.iter().flatten().enumerate().map(|(i, c)| ("initContainers", i, c));
    let main = spec.containers.iter().enumerate().map(|(i, c)| ("containers", i, c));
    init.chain(main).flat_map(of).collect()
}

/// `net.ipv4.ping_group_range` with groups that a user namespace does not have cannot be set in it.
fn ping_groups(spec: &PodSpec, root: &str) -> Option<Sysctl> {
    let all = spec.security_context.as_ref()?.sysctls.as_ref()?.iter().enumerate();
    let is_ping = |name: &str| name.replace('/', ".") == "net.ipv4.ping_group_range";
    let (index, found) = all.into_iter().find(|(_, sysctl)| is_ping(&sysctl.name))?;
    let last = found.value.split_whitespace().last()?.parse::<u64>().ok()?;
    let field = format!("{root}securityContext.sysctls[{index}].value");
    (last >= 65_536).then(|| Sysctl { field, value: found.value.clone() })
}

fn pod_security(pod: &PodRef<'_>, lens: &Lens) -> PodSecurity {
    let mut isolated_spec = pod.spec.clone();
    isolated_spec.host_users = Some(false);
    let mut isolated = *pod;
    isolated.spec = &isolated_spec;
    let found = |pod: &PodRef<'_>, level| manifest::violations(pod, level, lens.version);
    let levels = [Level::Baseline, Level::Restricted];
    let [now_base, now_strict] = levels.map(|level| found(pod, level));
    let [then_base, then_strict] = levels.map(|level| found(&isolated, level));
    let (level, broken, allowed) = if now_base.is_empty() {
        ("restricted", &now_strict, &then_strict)
    } else {
        ("baseline", &now_base, &then_base)
    };
    let violations = broken.iter().map(|v| Violation {
        level: level.to_owned(),
        check: v.check.to_owned(),
        field: v.field.clone(),
        found: v.found.clone(),
        allowed_in_user_namespace: !allowed.contains(v),
    });
    PodSecurity {
        now: highest(&now_base, &now_strict).to_owned(),
        with_user_namespace: highest(&then_base, &then_strict).to_owned(),
        violations: violations.collect(),
    }
}

fn highest(baseline: &[Found], restricted: &[Found]) -> &'static str {
    match (baseline, restricted) {
        ([], []) => "restricted",
        ([], _) => "baseline",
        _ => "privileged",
    }
}
