//! A node that does what it is told, with a clock that is turned by hand: it jumps from one thing that
//! happens to the next and asks for a step only then.
#![allow(dead_code)]

mod chaos;
mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lifecycle::{
    Action, Deletion, HookKind, Instance, InstanceState, Moment, Network, Observed, Outcome, Pod, Sandbox,
    State, Status, Task, Verdict, step,
};

pub use promises::Promises;

use crate::script::{Chaos, Event, Script, end_after_stop, kind_index, settings};

pub struct World<'a> {
    pub script: &'a Script,
    pub pod: Pod,
    pub now: u64,
    pub state: State,
    pub sandboxes: Vec<Sandbox>,
    pub instances: Vec<Instance>,
    /// When an instance ends, and with what.
    ends: BTreeMap<(String, u32), (u64, i32)>,
    tasks: BTreeMap<Task, (u64, u64)>,
    failed_starts: BTreeMap<Task, u32>,
    failed_makes: u32,
    probes_run: BTreeMap<(String, u32, usize), usize>,
    outcomes: Vec<Outcome>,
    events: Vec<(u64, Event)>,
    chaos: Vec<(u64, Chaos)>,
    blurred_for_ever: BTreeSet<(String, u32)>,
    /// What has truly ended, whatever the runtime says of it.
    pub ended: BTreeSet<(String, u32)>,
    /// Outcomes of the step before, for an echo.
    told: Vec<Outcome>,
    pub promises: Option<Promises>,
    pub wake: Option<u64>,
    pub status: Option<Status>,
    /// Every action with its time, as text; removals are left out.
    pub log: Vec<(u64, String)>,
}

pub fn at(second: u64) -> Moment {
    Moment::from_millis(second * 1000)
}

pub fn second(moment: Moment) -> u64 {
    assert_eq!(moment.millis() % 1000, 0);
    moment.millis() / 1000
}

impl<'a> World<'a> {
    pub fn new(script: &'a Script) -> Self {
        let mut world = Self::before(script);
        world.live_through();
        world
    }

    /// The same, every step of it held against what is promised of any history.
    pub fn watched(script: &'a Script) -> Self {
        let mut world = Self::before(script);
        world.promises = Some(Promises::default());
        world.live_through();
        world
    }

    fn before(script: &'a Script) -> Self {
        Self {
            script,
            pod: script.pod(),
            now: 0,
            state: State::new(settings()),
            sandboxes: vec![],
            instances: vec![],
            ends: BTreeMap::new(),
            tasks: BTreeMap::new(),
            failed_starts: BTreeMap::new(),
            failed_makes: 0,
            probes_run: BTreeMap::new(),
            outcomes: vec![],
            events: script.events.clone(),
            chaos: script.chaos.clone(),
            blurred_for_ever: BTreeSet::new(),
            ended: BTreeSet::new(),
            told: vec![],
            promises: None,
            wake: None,
            status: None,
            log: vec![],
        }
    }

    /// The next second in which something happens.
    pub fn next(&self) -> Option<u64> {
        let tasks = self.tasks.values().map(|(due, _)| *due);
        let ends = self.ends.values().map(|(due, _)| *due);
        let events = self.events.iter().map(|(due, _)| *due);
        let chaos = self.chaos.iter().map(|(due, _)| *due);
        tasks.chain(ends).chain(events).chain(chaos).chain(self.wake).min()
    }

    pub fn go_to(&mut self, second: u64) {
        assert!(second > self.now, "time stands still at {}", self.now);
        self.now = second;
        self.live_through();
    }

    pub fn observed(&self) -> Observed {
        Observed {
            under_way: self.tasks.keys().cloned().collect(),
            sandboxes: self.sandboxes.clone(),
            instances: self.instances.clone(),
            outcomes: self.outcomes.clone(),
            conditions: BTreeMap::new(),
            outdated: BTreeSet::new(),
            is_crowded: false,
        }
    }

    fn live_through(&mut self) {
        self.happen();
        for _ in 0..100 {
            self.finish();
            let actions = self.ask();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.begin(&action);
            }
        }
        panic!("second {} never ends: {:?}", self.now, self.log);
    }

    /// One step; what is ordered twice is a bug in whoever orders.
    pub fn ask(&mut self) -> Vec<Action> {
        let observed = self.observed();
        self.told = std::mem::take(&mut self.outcomes);
        let (mut actions, status) = step(&self.pod, &observed, &mut self.state, at(self.now));
        if let Some(mut promises) = self.promises.take() {
            promises.hold(self, (&observed, &actions, &status));
            self.promises = Some(promises);
        }
        self.status = Some(status);
        self.wake = None;
        if let Some(Action::Wake { at }) = actions.last() {
            self.wake = Some(second(*at));
            assert!(second(*at) > self.now, "a wake-up that is not in the future");
            actions.pop();
        }
        assert!(!actions.iter().any(|a| matches!(a, Action::Wake { .. })), "two wake-ups");
        actions
    }

    fn happen(&mut self) {
        let now = self.now;
        let due: Vec<Event> = self.events.iter().filter(|(at, _)| *at <= now).map(|(_, e)| *e).collect();
        self.events.retain(|(at, _)| *at > now);
        for event in due {
            match event {
                Event::Delete { grace } => {
                    let grace = grace.map(Duration::from_secs);
                    self.pod = self.pod.clone().deleted(Deletion { grace });
                }
                Event::LoseSandbox { containers_survive } => self.lose_sandbox(containers_survive),
            }
        }
        let due: Vec<Chaos> = self.chaos.iter().filter(|(at, _)| *at <= now).map(|(_, e)| *e).collect();
        self.chaos.retain(|(at, _)| *at > now);
        for chaos in due {
            self.suffer(chaos);
        }
    }

    fn lose_sandbox(&mut self, containers_survive: bool) {
        for sandbox in &mut self.sandboxes {
            sandbox.ready = false;
        }
        if !containers_survive {
            for instance in &self.instances {
                let key = (instance.container.to_string(), instance.attempt);
                if let InstanceState::Running { .. } = instance.state {
                    self.ends.insert(key, (self.now, 137));
                }
            }
        }
    }

    fn finish(&mut self) {
        let now = self.now;
        for ((name, attempt), (_, code)) in take_due(&mut self.ends, |(due, _)| *due <= now) {
            self.end(&name, attempt, code);
        }
        for (task, _) in take_due(&mut self.tasks, |(due, _)| *due <= now) {
            self.complete(task);
        }
    }

    pub fn end(&mut self, name: &str, attempt: u32, code: i32) {
        let now = at(self.now);
        self.ended.insert((name.to_owned(), attempt));
        let stays_blurred = self.blurred_for_ever.contains(&(name.to_owned(), attempt));
        let instance = self.instance(name, attempt);
        let since = match instance.state {
            InstanceState::Running { since } => Some(since),
            InstanceState::Unknown => None,
            _ => panic!("{name}#{attempt} does not run"),
        };
        let exit =
            lifecycle::Exit { code, reason: None, message: String::new(), started: since, finished: now };
        if since.is_some() || !stays_blurred {
            instance.state = InstanceState::Exited(exit);
        }
        let name = instance.container.clone();
        if self.tasks.remove(&Task::Stop(name.clone(), attempt)).is_some() {
            self.outcomes.push(Outcome::ContainerStopped { container: name, attempt });
        }
    }

    fn instance(&mut self, name: &str, attempt: u32) -> &mut Instance {
        let mut found = self.instances.iter_mut();
        found.find(|i| i.container.as_str() == name && i.attempt == attempt).unwrap()
    }

    fn begin(&mut self, action: &Action) {
        let now = self.now;
        let task = action.task().unwrap();
        let life = |container: &lifecycle::ContainerName, attempt| {
            self.script.life(self.script.index(container.as_str()), attempt).clone()
        };
        let (line, takes) = match action {
            Action::MakeSandbox { attempt } => (format!("make sandbox {attempt}"), self.script.make_takes),
            Action::StopSandbox { attempt } => (format!("stop sandbox {attempt}"), self.script.stop_takes),
            Action::StartContainer { container, attempt } => {
                (format!("start {container}#{attempt}"), life(container, *attempt).start_takes)
            }
            Action::StopContainer { container, attempt, grace, reason } => {
                let grace = grace.as_secs();
                let end = end_after_stop(&life(container, *attempt), now, grace);
                let key = (container.to_string(), *attempt);
                let before = self.ends.get(&key).copied();
                self.ends.insert(key, before.filter(|before| before.0 <= end.0).unwrap_or(end));
                (format!("stop {container}#{attempt} {grace}s {reason:?}"), u64::MAX - now)
            }
            Action::RunProbe { container, attempt, kind, .. } => {
                (format!("{kind} {container}#{attempt}"), life(container, *attempt).probe_takes)
            }
            Action::RunHook { container, attempt, hook, limit } => {
                let life = life(container, *attempt);
                let takes = match hook {
                    HookKind::PostStart => life.post_start_takes,
                    HookKind::PreStop => life.pre_stop_takes,
                };
                let limit = limit.map(|limit| limit.as_secs());
                (format!("{hook:?} {container}#{attempt} {limit:?}"), takes)
            }
            Action::RemoveContainer { container, attempt } => {
                let is_it = |i: &Instance| i.container == *container && i.attempt == *attempt;
                self.instances.retain(|i| !is_it(i));
                return;
            }
            Action::RemoveSandbox { attempt } => {
                assert!(self.instances.iter().all(|i| i.sandbox != *attempt));
                return self.sandboxes.retain(|s| s.attempt != *attempt);
            }
            Action::Wake { .. } => unreachable!(),
        };
        self.log.push((now, line));
        let is_stop = matches!(action, Action::StopContainer { .. });
        let before = self.tasks.insert(task, (now.saturating_add(takes), now));
        assert!(before.is_none() || is_stop, "{action:?} is ordered twice");
    }

    fn complete(&mut self, task: Task) {
        match &task {
            Task::MakeSandbox(attempt) => {
                if self.failed_makes < self.script.make_fails {
                    self.failed_makes += 1;
                    return self.fail(task, "FailedCreatePodSandBox");
                }
                let network = Network::Own;
                self.sandboxes.push(Sandbox { attempt: *attempt, ready: true, addressed: true, network });
            }
            Task::StopSandbox(attempt) => {
                let attempt = *attempt;
                for sandbox in self.sandboxes.iter_mut().filter(|s| s.attempt == attempt) {
                    sandbox.ready = false;
                }
                self.outcomes.push(Outcome::SandboxStopped { attempt });
            }
            Task::Start(name, attempt) => {
                let life = self.script.life(self.script.index(name.as_str()), *attempt).clone();
                let failed = self.failed_starts.entry(task.clone()).or_default();
                if *failed < life.start_fails {
                    *failed += 1;
                    let reason = if life.pull_fails { "ErrImagePull" } else { "CreateContainerError" };
                    return self.fail(task, reason);
                }
                let newest = self.sandboxes.iter().map(|s| s.attempt).max();
                let Some(sandbox) = newest else { return self.fail(task, "CreateContainerError") };
                if !self.sandboxes.iter().any(|s| s.attempt == sandbox && s.ready) {
                    return self.fail(task, "CreateContainerError");
                }
                self.instances.push(Instance {
                    container: name.clone(),
                    attempt: *attempt,
                    sandbox,
                    revision: self.pod.each().find(|(_, c)| c.name == *name).unwrap().1.revision,
                    state: InstanceState::Running { since: at(self.now) },
                });
                if let Some(after) = life.ends_after {
                    self.ends.insert((name.to_string(), *attempt), (self.now + after, life.code));
                }
            }
            Task::Probe(name, attempt, kind) => {
                let life = self.script.life(self.script.index(name.as_str()), *attempt);
                let words = &life.probes[kind_index(*kind)];
                let run = self.probes_run.entry((name.to_string(), *attempt, kind_index(*kind))).or_default();
                let verdict = if words[*run % words.len()] { Verdict::Success } else { Verdict::Failure };
                *run += 1;
                let begun = at(self.now - life.probe_takes);
                let (container, attempt, kind) = (name.clone(), *attempt, *kind);
                self.outcomes.push(Outcome::ProbeRan { container, attempt, kind, begun, verdict });
            }
            Task::Hook(name, attempt, hook) => {
                let life = self.script.life(self.script.index(name.as_str()), *attempt);
                let is_good = *hook == HookKind::PreStop || life.post_start_succeeds;
                let verdict = if is_good { Verdict::Success } else { Verdict::Failure };
                let (container, attempt, hook) = (name.clone(), *attempt, *hook);
                self.outcomes.push(Outcome::HookRan { container, attempt, hook, verdict });
            }
            Task::Stop(..) | Task::Remove(..) | Task::RemoveSandbox(_) => unreachable!(),
        }
    }

    fn fail(&mut self, task: Task, reason: &str) {
        let (reason, message) = (reason.to_owned(), String::new());
        self.outcomes.push(Outcome::Failed { task, at: at(self.now), reason, message });
    }
}

fn take_due<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, is_due: impl Fn(&V) -> bool) -> Vec<(K, V)> {
    let due: Vec<(K, V)> =
        map.iter().filter(|(_, v)| is_due(v)).map(|(k, v)| (k.clone(), v.clone())).collect();
    for (key, _) in &due {
        map.remove(key);
    }
    due
}
