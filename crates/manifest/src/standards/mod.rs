//! The Pod Security Standards: what a pod does that a level does not allow.

mod baseline;
mod restricted;

use k8s_openapi::api::core::v1::{Container, SecurityContext};
use plan::KubernetesVersion;

use crate::object::PodRef;
use crate::validate::as_container;

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known ways to more power are not.
    Baseline,
    /// What pods ought to be like.
    Restricted,
}

/// Something that a level does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {found} is not allowed by {check}")]
pub struct Violation {
    /// Which check of the standard, by upstream's name.
    pub check: &'static str,
    /// The field, as the object writes it.
    pub field: String,
    /// What is there, or what is missing.
    pub found: String,
}

/// What a pod does that this level of this version does not allow.
///
/// A pod in a user namespace is root only inside it. From 1.35 on the standard takes that into
/// account: such a pod may be root, and at the baseline see all of /proc.
#[must_use]
pub fn violations(pod: &PodRef<'_>, level: Level, version: KubernetesVersion) -> Vec<Violation> {
    let subject = Subject::new(pod, version);
    match level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::check(&subject),
        Level::Restricted => restricted::check(&subject),
    }
}

/// A pod with its containers, each with its field.
struct Subject<'a> {
    pod: &'a PodRef<'a>,
    version: KubernetesVersion,
    containers: Vec<(String, Container)>,
}

impl<'a> Subject<'a> {
    fn new(pod: &'a PodRef<'a>, version: KubernetesVersion) -> Self {
        let spec = pod.spec;
        let named = |list: &str, index: usize| pod.field(&format!("{list}[{index}]"));
        let init = spec.init_containers.iter().flatten().cloned().enumerate();
        let main = spec.containers.iter().cloned().enumerate();
        let late = spec.ephemeral_containers.iter().flatten().map(as_container).enumerate();
        let containers = init
            .map(|(i, c)| (named("initContainers", i), c))
            .chain(main.map(|(i, c)| (named("containers", i), c)))
            .chain(late.map(|(i, c)| (named("ephemeralContainers", i), c)))
            .collect();
        Self { pod, version, containers }
    }

    /// Whether the version is this one of 1.x or newer.
    fn since(&self, minor: u16) -> bool {
        format!("1.{minor}").parse::<KubernetesVersion>().is_ok_and(|since| self.version >= since)
    }

    /// Whether the pod has a user namespace, so that its root is an unprivileged user of the host.
    fn is_relaxed(&self) -> bool {
        self.pod.spec.host_users == Some(false) && self.since(35)
    }

    fn is_windows(&self) -> bool {
        self.pod.spec.os.as_ref().is_some_and(|os| os.name == "windows")
    }

    /// Each container's field and security context, if it has one.
    fn contexts(&self) -> impl Iterator<Item = (String, Option<&SecurityContext>)> {
        let field = |f: &String| format!("{f}.securityContext");
        self.containers.iter().map(move |(f, c)| (field(f), c.security_context.as_ref()))
    }
}

fn violation(check: &'static str, field: impl Into<String>, found: impl std::fmt::Display) -> Violation {
    Violation { check, field: field.into(), found: found.to_string() }
}
