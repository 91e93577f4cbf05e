//! What holds in every history, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use lifecycle::{Action, ContainerName, InstanceState, Observed, Phase, Role, Stage, Status, step};

use super::{World, at};

#[derive(Debug, Default)]
pub struct Promises {
    phase: Option<Phase>,
    stage: Option<Stage>,
    /// Init containers that ended well, and sidecars that came up, with their sandbox.
    passed: BTreeSet<(ContainerName, u32)>,
    starts: BTreeMap<ContainerName, Restart>,
    excused: BTreeSet<ContainerName>,
    ending_since: Option<u64>,
}

/// A container's last restart, and how many have made its wait longer.
#[derive(Debug, Clone, Copy)]
struct Restart {
    at: u64,
    restarts: u32,
    attempt: u32,
}

impl Promises {
    /// Another definition begins its waits anew, at a time that is the crate's to choose.
    pub fn excuse(&mut self, name: ContainerName) {
        self.excused.insert(name);
    }

    /// Waits are not remembered by one who forgets; and whether a sandbox
    /// that is not ready was stopped is not known any more, so it is stopped once again.
    pub fn forget(&mut self) {
        self.starts.clear();
        self.stage = self.stage.map(|stage| stage.min(Stage::Terminating));
        self.ending_since = None;
    }

    pub fn hold(&mut self, world: &World<'_>, step: (&Observed, &[Action], &Status)) {
        let (observed, actions, status) = step;
        self.note_passed(world, observed, status);
        self.nothing_is_ordered_twice(world, step);
        for action in actions {
            if let Action::StartContainer { container, attempt } = action {
                self.one_instance_at_a_time(world, observed, (container, *attempt));
                self.init_containers_come_first(world, observed, container);
                self.waits_are_kept(world, observed, (container, *attempt));
            }
        }
        self.an_end_is_an_end(world, actions, status);
        self.phases_only_go_on(world, observed, status);
        self.the_last_dead_instance_stays(observed, actions);
    }

    fn note_passed(&mut self, world: &World<'_>, observed: &Observed, status: &Status) {
        let started: BTreeSet<_> = status.init.iter().filter(|c| c.started).map(|c| &c.name).collect();
        for (role, container) in world.pod.each() {
            for instance in observed.instances.iter().filter(|i| i.container == container.name) {
                let is_passed = match (role, &instance.state) {
                    (Role::Init, InstanceState::Exited(exit)) => exit.code == 0,
                    (Role::Sidecar, InstanceState::Running { .. }) => started.contains(&container.name),
                    _ => false,
                };
                if is_passed {
                    self.passed.insert((container.name.clone(), instance.sandbox));
                }
            }
        }
    }

    fn nothing_is_ordered_twice(&self, world: &World<'_>, first: (&Observed, &[Action], &Status)) {
        let (observed, actions, status) = first;
        let mut observed = observed.clone();
        observed.under_way.extend(actions.iter().filter_map(Action::task));
        let mut state = world.state.clone();
        let (again, same) = step(&world.pod, &observed, &mut state, at(world.now));
        let again: Vec<_> = again.iter().filter(|a| !matches!(a, Action::Wake { .. })).collect();
        assert!(again.is_empty(), "{again:?} is ordered though {actions:?} is under way");
        let is_terminal = status.phase.is_final();
        assert!(!is_terminal || same.phase == status.phase);
    }

    fn one_instance_at_a_time(&self, world: &World<'_>, observed: &Observed, start: (&ContainerName, u32)) {
        let (name, attempt) = start;
        for instance in observed.instances.iter().filter(|i| i.container == *name) {
            let has_ended = world.ended.contains(&(name.to_string(), instance.attempt));
            assert!(has_ended, "{name}#{attempt} is started beside {instance:?}");
            assert!(instance.attempt < attempt, "{name}#{attempt} was there before");
        }
    }

    fn init_containers_come_first(&self, world: &World<'_>, observed: &Observed, name: &ContainerName) {
        let sandbox = observed.sandboxes.iter().map(|s| s.attempt).max().unwrap();
        let before = world.pod.each().take_while(|(_, container)| container.name != *name);
        for (role, earlier) in before.filter(|(role, _)| matches!(role, Role::Init | Role::Sidecar)) {
            let is_passed = self.passed.contains(&(earlier.name.clone(), sandbox));
            assert!(is_passed, "{name} is started before {role:?} {} has passed", earlier.name);
        }
    }

    fn waits_are_kept(&mut self, world: &World<'_>, observed: &Observed, start: (&ContainerName, u32)) {
        let (name, attempt) = start;
        if self.excused.contains(name) {
            return;
        }
        let mut instances = observed.instances.iter().filter(|i| i.container == *name);
        let before = instances.find(|i| i.attempt + 1 == attempt).map(|i| &i.state);
        // When one ended of which the runtime knows nothing is for the crate to say.
        let Some(InstanceState::Exited(exit)) = before else {
            self.starts.remove(name);
            return;
        };
        let finished = exit.finished.millis() / 1000;
        let before = self.starts.get(name).copied();
        if before.is_some_and(|before| before.attempt == attempt) {
            return;
        }
        let kept = before.filter(|before| finished <= before.at + 16);
        let wait = kept.map_or(0, |before| (2_u64 << before.restarts.saturating_sub(1).min(8)).min(8));
        assert!(world.now >= finished + wait, "{name} ended at {finished} and is back at {}", world.now);
        let restarts = kept.map_or(1, |before| before.restarts + 1);
        self.starts.insert(name.clone(), Restart { at: world.now, restarts, attempt });
    }

    fn an_end_is_an_end(&mut self, world: &World<'_>, actions: &[Action], status: &Status) {
        if self.stage.is_some_and(|stage| stage != Stage::Syncing) {
            let is_start =
                |a: &&Action| matches!(a, Action::StartContainer { .. } | Action::MakeSandbox { .. });
            let started: Vec<_> = actions.iter().filter(is_start).collect();
            assert!(started.is_empty(), "{started:?} in a pod that ends");
        }
        assert!(self.stage <= Some(status.stage), "{:?} after {:?}", status.stage, self.stage);
        assert!(!status.phase.is_final() || status.stage != Stage::Syncing, "final, and goes on");
        assert!(status.stage != Stage::Terminated || status.phase.is_final(), "ended in {:?}", status.phase);
        self.stage = Some(status.stage);
        if status.stage == Stage::Terminating {
            let since = *self.ending_since.get_or_insert(world.now);
            assert!(world.now <= since + 60, "the end takes for ever");
        }
    }

    /// A pod is Pending again only to be initialised again in a new sandbox.
    fn phases_only_go_on(&mut self, world: &World<'_>, observed: &Observed, status: &Status) {
        let newest = observed.sandboxes.iter().map(|s| s.attempt).max();
        let mut regular = world.pod.spec().containers.iter();
        let is_begun = regular.any(|container| {
            let mut instances = observed.instances.iter().filter(|i| i.container == container.name);
            instances.any(|i| Some(i.sandbox) == newest)
        });
        if let Some(before) = self.phase {
            let is_final = before.is_final();
            assert!(!is_final || status.phase == before, "{before:?}, then {:?}", status.phase);
            let goes_back = before == Phase::Running && status.phase == Phase::Pending;
            assert!(
                !goes_back || !is_begun,
                "Pending again after its containers were started: {:?}, {:?}",
                status.init,
                observed.instances
            );
        }
        self.phase = Some(status.phase);
    }

    fn the_last_dead_instance_stays(&self, observed: &Observed, actions: &[Action]) {
        for action in actions {
            let Action::RemoveContainer { container, attempt } = action else { continue };
            let mut later = observed.instances.iter().filter(|i| i.container == *container);
            let is_dead = |state: &InstanceState| !matches!(state, InstanceState::Running { .. });
            assert!(
                later.any(|i| i.attempt > *attempt && is_dead(&i.state)),
                "{container}#{attempt} was the last"
            );
        }
    }
}
