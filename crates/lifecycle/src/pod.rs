use std::collections::BTreeSet;
use std::time::Duration;

use types::ContainerName;

use crate::container::{Container, Probe, ProbeKind, RestartPolicy};
use crate::error::Malformed;

/// The role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on running beside the regular ones.
    Sidecar,
    /// A regular container.
    Regular,
    /// Added to a running pod for debugging; never restarted.
    Ephemeral,
}

/// The network of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Its own: a sandbox without an address is not usable.
    Own,
    /// The host's.
    Host,
}

/// The specification of a pod, before validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The restart policy of containers without one of their own.
    pub restart: RestartPolicy,
    /// Init containers and sidecars, in their order.
    pub init: Vec<Container>,
    /// Regular containers, in their order.
    pub containers: Vec<Container>,
    /// Ephemeral containers.
    pub ephemeral: Vec<Container>,
    /// The grace period between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// `activeDeadlineSeconds`.
    pub active_deadline: Option<Duration>,
    /// Conditions, set by others, without which the pod is not ready.
    pub readiness_gates: Vec<String>,
    /// Its network.
    pub network: Network,
}

impl Spec {
    /// A pod of these regular containers, everything else as Kubernetes has it by default.
    #[must_use]
    pub fn of(containers: Vec<Container>) -> Self {
        Self {
            restart: RestartPolicy::Always,
            init: Vec::new(),
            containers,
            ephemeral: Vec::new(),
            grace: Duration::from_secs(30),
            active_deadline: None,
            readiness_gates: Vec::new(),
            network: Network::Own,
        }
    }
}

/// The request to delete the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// The requested grace period, if it differs from the pod's.
    pub grace: Option<Duration>,
}

/// An eviction by the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod's reason, as `Evicted` or `Terminated`.
    pub reason: String,
    /// Why, as text.
    pub message: String,
    /// The grace period, if it differs from the pod's.
    pub grace: Option<Duration>,
}

/// A validated pod: names are unique, probes and hooks are where they are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    spec: Spec,
    deletion: Option<Deletion>,
    eviction: Option<Eviction>,
}

impl Pod {
    /// A pod without a request to delete it.
    ///
    /// # Errors
    /// If the spec breaks a rule that Kubernetes' validation has too.
    pub fn new(spec: Spec) -> Result<Self, Malformed> {
        if spec.containers.is_empty() {
            return Err(Malformed::NoContainers);
        }
        let pod = Self { spec, deletion: None, eviction: None };
        let mut names = BTreeSet::new();
        for (role, container) in pod.each() {
            if !names.insert(&container.name) {
                return Err(Malformed::NameTwice { name: container.name.clone() });
            }
            check(role, container)?;
        }
        Ok(pod)
    }

    /// The same pod with a deletion request; a later call with less grace shortens it.
    #[must_use]
    pub fn deleted(mut self, deletion: Deletion) -> Self {
        self.deletion = Some(deletion);
        self
    }

    /// The same pod with another spec; a deletion or eviction stays.
    ///
    /// # Errors
    /// If the spec breaks a rule that Kubernetes' validation has too.
    pub fn updated(self, spec: Spec) -> Result<Self, Malformed> {
        Ok(Self { spec: Self::new(spec)?.spec, ..self })
    }

    /// The same pod, evicted by the node.
    #[must_use]
    pub fn evicted(mut self, eviction: Eviction) -> Self {
        self.eviction = Some(eviction);
        self
    }

    /// Its specification.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its deletion request.
    #[must_use]
    pub const fn deletion(&self) -> Option<&Deletion> {
        self.deletion.as_ref()
    }

    /// Its eviction.
    #[must_use]
    pub const fn eviction(&self) -> Option<&Eviction> {
        self.eviction.as_ref()
    }

    /// Every container: init containers and sidecars in their order, then regular ones, then ephemeral.
    pub fn each(&self) -> impl Iterator<Item = (Role, &Container)> {
        let init = self.spec.init.iter().map(|c| (init_role(c), c));
        let regular = self.spec.containers.iter().map(|c| (Role::Regular, c));
        let ephemeral = self.spec.ephemeral.iter().map(|c| (Role::Ephemeral, c));
        init.chain(regular).chain(ephemeral)
    }

    /// Whether `container` is to be started again after it ended by itself with `code`.
    #[must_use]
    pub fn restarts_after(&self, container: &Container, code: i32) -> bool {
        let rules = container.restart.iter().flat_map(|own| &own.rules);
        let policy = self.policy(container);
        rules.into_iter().any(|rule| rule.holds(code))
            || policy == RestartPolicy::Always
            || (policy == RestartPolicy::OnFailure && code != 0)
    }

    /// The policy that holds for a container when no rule does.
    pub(crate) fn policy(&self, container: &Container) -> RestartPolicy {
        container.restart.as_ref().map_or(self.spec.restart, |own| own.policy)
    }
}

pub(crate) fn init_role(container: &Container) -> Role {
    if container.is_restartable() { Role::Sidecar } else { Role::Init }
}

fn check(role: Role, container: &Container) -> Result<(), Malformed> {
    let name = || container.name.clone();
    let bare = matches!(role, Role::Init | Role::Ephemeral);
    if bare && (container.post_start || container.pre_stop) {
        return Err(Malformed::HookNotAllowed { container: name() });
    }
    if role == Role::Ephemeral && container.restart.is_some() {
        return Err(Malformed::EphemeralRestart { container: name() });
    }
    for kind in ProbeKind::ALL {
        let Some(probe) = container.probe(kind) else { continue };
        if bare {
            return Err(Malformed::ProbeNotAllowed { container: name(), kind });
        }
        check_probe(&container.name, kind, probe)?;
    }
    Ok(())
}

fn check_probe(container: &ContainerName, kind: ProbeKind, probe: &Probe) -> Result<(), Malformed> {
    let zero = |field| Malformed::ZeroInProbe { container: container.clone(), kind, field };
    if probe.period.is_zero() {
        return Err(zero("periodSeconds"));
    }
    if probe.timeout.is_zero() {
        return Err(zero("timeoutSeconds"));
    }
    if probe.failure_threshold == 0 {
        return Err(zero("failureThreshold"));
    }
    if probe.success_threshold == 0 {
        return Err(zero("successThreshold"));
    }
    if kind != ProbeKind::Readiness && probe.success_threshold != 1 {
        let found = probe.success_threshold;
        return Err(Malformed::SuccessThreshold { container: container.clone(), kind, found });
    }
    Ok(())
}
