use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::ContainerName;

use crate::action::{StopReason, Task};
use crate::backoff::Backoff;
use crate::container::ProbeKind;
use crate::moment::Moment;
use crate::observed::{ConditionStatus, Exit, InstanceState, Verdict};
use crate::pod::Pod;
use crate::settings::Settings;
use crate::status::{ConditionKind, ContainerState, ContainerStatus, Phase, Status};

/// What must be remembered of a pod from one step to the next, and cannot be observed on the node.
///
/// It may be lost at any time: [`State::resumed`] continues from the status that was reported last, and [`State::new`]
/// from nothing. Only delays and unfinished stops are forgotten then, which start again.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) started: Option<Moment>,
    /// Set once, when the pod's phase becomes final, and never changed.
    pub(crate) terminal: Option<Terminal>,
    pub(crate) sandbox_attempts: Option<u32>,
    pub(crate) stopped_sandboxes: BTreeSet<u32>,
    pub(crate) stopped_containers: BTreeSet<InstanceKey>,
    pub(crate) tracks: BTreeMap<ContainerName, Track>,
    /// Instances that are to end. An instance never leaves this map before its end.
    pub(crate) kills: BTreeMap<InstanceKey, Kill>,
    pub(crate) takedown: Option<Takedown>,
    pub(crate) failures: BTreeMap<Task, Failure>,
    pub(crate) conditions: BTreeMap<ConditionKind, (ConditionStatus, Moment)>,
}

pub(crate) type InstanceKey = (ContainerName, u32);

/// A final phase and why.
#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

/// One container over its instances.
#[derive(Debug, Clone, Default)]
pub(crate) struct Track {
    pub(crate) newest: Option<Seen>,
    /// How the instance before the newest ended.
    pub(crate) last: Option<Exit>,
    /// The attempt whose start this state has issued: its postStart hook is to be run.
    pub(crate) ordered: Option<u32>,
    pub(crate) backoff: Backoff,
    /// The result of the newest instance's postStart hook.
    pub(crate) post_start: Option<Verdict>,
    pub(crate) probes: BTreeMap<ProbeKind, ProbeTrack>,
    /// Since when the newest instance is neither running nor ended, and no start of it is under way.
    pub(crate) stalled: Option<Moment>,
}

/// The newest instance of a container as it was seen last.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) attempt: u32,
    /// None if it is only known from a status.
    pub(crate) sandbox: Option<u32>,
    pub(crate) revision: Option<u64>,
    pub(crate) state: InstanceState,
    /// Whether that is surely its own state. A container that waits may have an instance that was not started yet: the
    /// last end is then that of the one before.
    pub(crate) is_sure: bool,
}

impl Seen {
    pub(crate) const fn exit(&self) -> Option<&Exit> {
        match &self.state {
            InstanceState::Exited(exit) => Some(exit),
            _ => None,
        }
    }

    pub(crate) const fn running_since(&self) -> Option<Moment> {
        match self.state {
            InstanceState::Running { since } => Some(since),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProbeTrack {
    pub(crate) begun: Option<Moment>,
    last: Option<Verdict>,
    run: u32,
    /// The current result: changed only when a threshold is reached.
    pub(crate) result: Option<Verdict>,
}

impl ProbeTrack {
    /// Whether the instance no longer needs this probe: it has come up, or it is to be replaced.
    pub(crate) fn is_decided(&self, kind: ProbeKind) -> bool {
        match kind {
            ProbeKind::Startup => self.result.is_some(),
            ProbeKind::Liveness => self.result == Some(Verdict::Failure),
            ProbeKind::Readiness => false,
        }
    }

    pub(crate) fn count(&mut self, verdict: Verdict, threshold: u32) {
        self.run = if self.last == Some(verdict) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(verdict);
        if self.run >= threshold {
            self.result = Some(verdict);
        }
    }
}

/// A kill that is issued or to be issued.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    pub(crate) reason: StopReason,
    pub(crate) deadline: Moment,
    pub(crate) pre_stop_done: bool,
    /// The deadline that the runtime got with the stop.
    pub(crate) kill_at: Option<Moment>,
    /// When the last stop succeeded.
    pub(crate) stopped: Option<Moment>,
}

/// A stop of everything in the pod.
#[derive(Debug, Clone)]
pub(crate) struct Takedown {
    pub(crate) reason: StopReason,
    /// The shortest grace period that was asked for: each instance has it from when it is first seen to run.
    pub(crate) grace: Duration,
    /// Whether it is the pod's end, and not the renewal of its sandbox.
    pub(crate) is_final: bool,
    /// When nothing ran any more, once that is so.
    pub(crate) done: Option<Moment>,
}

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) at: Moment,
    pub(crate) times: u32,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Track {
    /// The number the next instance gets.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.newest.as_ref().map_or(0, |seen| seen.attempt.saturating_add(1))
    }

    pub(crate) fn result(&self, kind: ProbeKind) -> Option<Verdict> {
        self.probes.get(&kind).and_then(|probe| probe.result)
    }

    /// Forgets the state of the previous instance.
    pub(crate) fn turn_over(&mut self) {
        self.post_start = None;
        self.stalled = None;
        self.probes.clear();
    }

    fn resumed(status: &ContainerStatus) -> Self {
        let attempt = status.restart_count;
        let seen = |state| Seen { attempt, sandbox: None, revision: None, state, is_sure: true };
        let (newest, last) = match &status.state {
            ContainerState::Running { since } => {
                (Some(seen(InstanceState::Running { since: *since })), status.last.clone())
            }
            ContainerState::Terminated(exit) => {
                (Some(seen(InstanceState::Exited(exit.clone()))), status.last.clone())
            }
            // It waits for a restart: its last end is that of its newest instance.
            ContainerState::Waiting { .. } => {
                let last = status.last.clone().map(|exit| seen(InstanceState::Exited(exit)));
                (last.map(|seen| Seen { is_sure: false, ..seen }), None)
            }
        };
        let mut track = Self { newest, last, ..Self::default() };
        // What holds for an instance that is not there any more is cleared with its successor.
        for (kind, held) in [(ProbeKind::Startup, status.started), (ProbeKind::Readiness, status.ready)] {
            if held {
                track.probes.entry(kind).or_default().result = Some(Verdict::Success);
            }
        }
        track
    }
}

impl State {
    /// For a pod that was never observed before.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            started: None,
            terminal: None,
            sandbox_attempts: None,
            stopped_sandboxes: BTreeSet::new(),
            stopped_containers: BTreeSet::new(),
            tracks: BTreeMap::new(),
            kills: BTreeMap::new(),
            takedown: None,
            failures: BTreeMap::new(),
            conditions: BTreeMap::new(),
        }
    }

    /// The state of a pod whose status an earlier process reported: a final phase stays, a container that was ready is
    /// ready until a probe says otherwise, one that had ended is not run again without a cause, and the deadline is
    /// counted from the same start.
    #[must_use]
    pub fn resumed(settings: Settings, status: &Status) -> Self {
        let mut state = Self::new(settings);
        state.started = Some(status.started);
        if status.phase.is_final() {
            let (reason, message) = (status.reason.clone(), status.message.clone());
            state.terminal = Some(Terminal { phase: status.phase, reason, message });
        }
        for condition in &status.conditions {
            state.conditions.insert(condition.kind, (condition.status, condition.since));
        }
        let statuses = status.init.iter().chain(&status.containers).chain(&status.ephemeral);
        state.tracks = statuses.map(|one| (one.name.clone(), Track::resumed(one))).collect();
        state
    }

    /// Forgets why containers of another revision could not be started: an image that could not be pulled does not keep
    /// the one that replaces it waiting. To be called when the pod is [`Pod::updated`], with the pod before and after.
    pub fn update(&mut self, old: &Pod, new: &Pod) {
        let revision = |pod: &Pod, name: &ContainerName| {
            pod.each().find(|(_, container)| container.name == *name).map(|(_, container)| container.revision)
        };
        self.failures.retain(|task, _| match task {
            Task::Start(name, _) => revision(old, name) == revision(new, name),
            _ => true,
        });
    }
}
