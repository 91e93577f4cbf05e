//! A pod moved by hand: what happens is told, one thing after the other, and what is ordered is read.
#![allow(dead_code)]

use std::time::Duration;

use lifecycle::{
    Action, Container, ContainerName, ContainerRestart, ContainerState, ContainerStatus, Deletion, Exit,
    HookKind, Instance, InstanceState, Moment, Network, Observed, Outcome, Pod, Probe, ProbeKind,
    RestartPolicy, Sandbox, Settings, Spec, State, Status, Task, Verdict, step,
};

pub struct Stage {
    pub pod: Pod,
    pub observed: Observed,
    pub state: State,
    pub now: u64,
    pub wake: Option<u64>,
    pub status: Option<Status>,
}

pub fn name(name: &str) -> ContainerName {
    ContainerName::new(name).unwrap()
}

pub fn at(second: u64) -> Moment {
    Moment::from_millis(second * 1000)
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn container(of: &str) -> Container {
    Container::named(name(of))
}

pub fn sidecar(name: &str) -> Container {
    let restart = Some(ContainerRestart { policy: RestartPolicy::Always, rules: vec![] });
    Container { restart, ..container(name) }
}

pub fn probe() -> Probe {
    Probe::default()
}

/// A pod of one container "a".
pub fn one() -> Spec {
    Spec::of(vec![container("a")])
}

pub fn start(name: &str, attempt: u32) -> Action {
    Action::StartContainer { container: ContainerName::new(name).unwrap(), attempt }
}

impl Stage {
    pub fn new(spec: Spec) -> Self {
        let (observed, state) = (Observed::default(), State::new(Settings::default()));
        let pod = Pod::new(spec).unwrap();
        Self { pod, observed, state, now: 0, wake: None, status: None }
    }

    /// A pod whose sandbox 0 is there; nothing was ordered in it yet.
    pub fn in_sandbox(spec: Spec) -> Self {
        let mut stage = Self::new(spec);
        assert_eq!(stage.orders(), [Action::MakeSandbox { attempt: 0 }]);
        stage.sandbox(0);
        stage
    }

    /// A pod of one container that runs since second 0.
    pub fn running(spec: Spec) -> Self {
        let mut stage = Self::in_sandbox(spec);
        assert_eq!(stage.orders(), [start("a", 0)]);
        stage.runs("a", 0);
        stage
    }

    /// One step; what it orders is under way from then on. Wake-ups are kept apart.
    pub fn orders(&mut self) -> Vec<Action> {
        let (mut actions, status) = step(&self.pod, &self.observed, &mut self.state, at(self.now));
        self.observed.outcomes.clear();
        self.status = Some(status);
        self.wake = None;
        if let Some(Action::Wake { at }) = actions.last() {
            self.wake = Some(at.millis() / 1000);
            actions.pop();
        }
        self.observed.under_way.extend(actions.iter().filter_map(Action::task));
        actions
    }

    pub fn orders_at(&mut self, second: u64) -> Vec<Action> {
        self.now = second;
        self.orders()
    }

    pub fn status(&self) -> &Status {
        self.status.as_ref().unwrap()
    }

    pub fn of(&self, name: &str) -> &ContainerStatus {
        let status = self.status();
        let mut all = status.init.iter().chain(&status.containers).chain(&status.ephemeral);
        all.find(|c| c.name.as_str() == name).unwrap()
    }

    /// `Running`, or why it waits or has ended.
    pub fn state_of(&self, name: &str) -> String {
        match &self.of(name).state {
            ContainerState::Waiting { reason, .. } => reason.clone(),
            ContainerState::Running { .. } => "Running".to_owned(),
            ContainerState::Terminated(exit) => exit.reason().to_owned(),
        }
    }

    pub fn sandbox(&mut self, attempt: u32) {
        self.done(&Task::MakeSandbox(attempt));
        let network = Network::Own;
        self.observed.sandboxes.push(Sandbox { attempt, ready: true, addressed: true, network });
    }

    pub fn sandbox_lost(&mut self) {
        for sandbox in &mut self.observed.sandboxes {
            sandbox.ready = false;
        }
    }

    pub fn sandbox_stopped(&mut self, attempt: u32) {
        self.done(&Task::StopSandbox(attempt));
        self.sandbox_lost();
        self.observed.outcomes.push(Outcome::SandboxStopped { attempt });
    }

    pub fn done(&mut self, task: &Task) {
        self.observed.under_way.remove(task);
    }

    fn put(&mut self, container: &str, attempt: u32, state: InstanceState) {
        let all = &mut self.observed.instances;
        if let Some(known) =
            all.iter_mut().find(|i| i.container.as_str() == container && i.attempt == attempt)
        {
            known.state = state;
            return;
        }
        let sandbox = self.observed.sandboxes.iter().map(|s| s.attempt).max().unwrap_or(0);
        let revision =
            self.pod.each().find(|(_, c)| c.name.as_str() == container).map_or(0, |(_, c)| c.revision);
        let container = name(container);
        self.observed.instances.push(Instance { container, attempt, sandbox, revision, state });
    }

    pub fn runs(&mut self, container: &str, attempt: u32) {
        self.done(&Task::Start(name(container), attempt));
        self.put(container, attempt, InstanceState::Running { since: at(self.now) });
    }

    pub fn exits(&mut self, container: &str, attempt: u32, code: i32) {
        self.done(&Task::Start(name(container), attempt));
        self.done(&Task::Stop(name(container), attempt));
        let (reason, started) = (None, Some(Moment::default()));
        let finished = at(self.now);
        let exit = Exit { code, reason, message: String::new(), started, finished };
        self.put(container, attempt, InstanceState::Exited(exit));
    }

    pub fn becomes(&mut self, container: &str, attempt: u32, state: InstanceState) {
        self.done(&Task::Start(name(container), attempt));
        self.put(container, attempt, state);
    }

    pub fn fails(&mut self, task: Task, reason: &str) {
        self.done(&task);
        let (reason, message) = (reason.to_owned(), "because".to_owned());
        self.observed.outcomes.push(Outcome::Failed { task, at: at(self.now), reason, message });
    }

    /// A probe that was under way says this; it began in this second.
    pub fn probed(&mut self, container: &str, kind: ProbeKind, verdict: Verdict) {
        let attempt = self.of(container).restart_count;
        self.done(&Task::Probe(name(container), attempt, kind));
        let (container, begun) = (name(container), at(self.now));
        self.observed.outcomes.push(Outcome::ProbeRan { container, attempt, kind, begun, verdict });
    }

    pub fn hooked(&mut self, container: &str, hook: HookKind, verdict: Verdict) {
        let attempt = self.of(container).restart_count;
        self.done(&Task::Hook(name(container), attempt, hook));
        let container = name(container);
        self.observed.outcomes.push(Outcome::HookRan { container, attempt, hook, verdict });
    }

    pub fn update(&mut self, spec: Spec) {
        let updated = self.pod.clone().updated(spec).unwrap();
        self.state.update(&self.pod, &updated);
        self.pod = updated;
    }

    pub fn delete(&mut self, grace: Option<u64>) {
        self.pod = self.pod.clone().deleted(Deletion { grace: grace.map(secs) });
    }
}

/// The containers a step starts, as `name#attempt`.
pub fn started(actions: &[Action]) -> Vec<String> {
    let started = actions.iter().filter_map(|action| match action {
        Action::StartContainer { container, attempt } => Some(format!("{container}#{attempt}")),
        _ => None,
    });
    started.collect()
}

/// The containers a step stops, as `name grace reason`.
pub fn stopped(actions: &[Action]) -> Vec<String> {
    let stopped = actions.iter().filter_map(|action| match action {
        Action::StopContainer { container, grace, reason, .. } => {
            Some(format!("{container} {}s {reason:?}", grace.as_secs()))
        }
        _ => None,
    });
    stopped.collect()
}

/// The probes a step runs, as `kind name`.
pub fn probes(actions: &[Action]) -> Vec<String> {
    let probes = actions.iter().filter_map(|action| match action {
        Action::RunProbe { container, kind, .. } => Some(format!("{kind} {container}")),
        _ => None,
    });
    probes.collect()
}

/// The hooks a step runs, as `hook name limit`.
pub fn hooks(actions: &[Action]) -> Vec<String> {
    let hooks = actions.iter().filter_map(|action| match action {
        Action::RunHook { container, hook, limit, .. } => {
            Some(format!("{hook:?} {container} {:?}", limit.map(|limit| limit.as_secs())))
        }
        _ => None,
    });
    hooks.collect()
}
