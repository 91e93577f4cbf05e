use std::fmt;
use std::time::Duration;

use types::ContainerName;

/// What happens to a container that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// It is started again.
    Always,
    /// It is started again unless it ended with code 0.
    OnFailure,
    /// It stays as it is.
    Never,
}

/// Exit codes for which a container is started again whatever its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartRule {
    /// One of these.
    In(Vec<i32>),
    /// Any but these.
    NotIn(Vec<i32>),
}

impl RestartRule {
    pub(crate) fn holds(&self, code: i32) -> bool {
        match self {
            Self::In(codes) => codes.contains(&code),
            Self::NotIn(codes) => !codes.contains(&code),
        }
    }
}

/// A restart policy of one container's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRestart {
    /// Applies when no rule matches.
    pub policy: RestartPolicy,
    /// Checked first, in order.
    pub rules: Vec<RestartRule>,
}

/// Which of a container's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Until it has succeeded the other probes wait; when it has failed the container is restarted.
    Startup,
    /// When it has failed the container is restarted.
    Liveness,
    /// Whether the container is ready.
    Readiness,
}

impl ProbeKind {
    pub(crate) const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        })
    }
}

/// When a probe runs and how its results count. The caller implements its handler (exec, httpGet, tcpSocket, grpc).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// From the container's start to the first run.
    pub initial_delay: Duration,
    /// From the beginning of a run to the beginning of the next.
    pub period: Duration,
    /// How long a run may take.
    pub timeout: Duration,
    /// The number of consecutive successes that count as a success.
    pub success_threshold: u32,
    /// The number of consecutive failures that count as a failure.
    pub failure_threshold: u32,
    /// The grace period of a container that this probe has killed, instead of the pod's.
    pub grace: Option<Duration>,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            initial_delay: Duration::ZERO,
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            success_threshold: 1,
            failure_threshold: 3,
            grace: None,
        }
    }
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: ContainerName,
    /// A revision of the definition: a running container of another revision is replaced.
    pub revision: u64,
    /// Its own restart policy. An init container with `Always` is a sidecar.
    pub restart: Option<ContainerRestart>,
    /// Its startup probe.
    pub startup: Option<Probe>,
    /// Its liveness probe.
    pub liveness: Option<Probe>,
    /// Its readiness probe.
    pub readiness: Option<Probe>,
    /// Whether it has a postStart hook.
    pub post_start: bool,
    /// Whether it has a preStop hook.
    pub pre_stop: bool,
}

impl Container {
    /// A container with this name and no other setting.
    #[must_use]
    pub fn named(name: ContainerName) -> Self {
        Self {
            name,
            revision: 0,
            restart: None,
            startup: None,
            liveness: None,
            readiness: None,
            post_start: false,
            pre_stop: false,
        }
    }

    pub(crate) const fn probe(&self, kind: ProbeKind) -> Option<&Probe> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
        }
    }

    /// Whether an init container like this is a sidecar.
    pub(crate) fn is_restartable(&self) -> bool {
        self.restart.as_ref().is_some_and(|own| own.policy == RestartPolicy::Always)
    }
}
