//! What happens to a pod in a history, and how its containers behave: read by the world and by the model.
#![allow(dead_code)]

use std::time::Duration;

use lifecycle::{
    Container, ContainerRestart, Pod, Probe, ProbeKind, RestartPolicy, RestartRule, Settings, Spec,
};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// How one instance of a container behaves. Times are in seconds.
#[derive(Debug, Clone)]
pub struct Life {
    pub start_takes: u64,
    /// So many starts fail before one does not.
    pub start_fails: u32,
    pub pull_fails: bool,
    /// When it ends by itself, and with what.
    pub ends_after: Option<u64>,
    pub code: i32,
    /// How long after SIGTERM it ends, and with what.
    pub obeys_after: u64,
    pub term_code: i32,
    pub post_start_takes: u64,
    pub post_start_succeeds: bool,
    pub pre_stop_takes: u64,
    pub probe_takes: u64,
    /// What its probes say, one after the other and round again: startup, liveness, readiness.
    pub probes: [Vec<bool>; 3],
}

/// One that starts at once, goes on, and obeys at once.
pub fn quiet_life() -> Life {
    Life {
        start_takes: 0,
        start_fails: 0,
        pull_fails: false,
        ends_after: None,
        code: 0,
        obeys_after: 0,
        term_code: 0,
        post_start_takes: 0,
        post_start_succeeds: true,
        pre_stop_takes: 0,
        probe_takes: 0,
        probes: [vec![true], vec![true], vec![true]],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Delete {
        grace: Option<u64>,
    },
    /// The sandbox is no longer ready; its containers die with it or run on.
    LoseSandbox {
        containers_survive: bool,
    },
}

/// What a pod must come through without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chaos {
    /// The state is lost; only the last status is left.
    Forget,
    /// A container is gone from the runtime's list, with its process.
    Vanish { container: usize },
    /// The runtime no longer knows a running container's state, for ever or until it is stopped.
    Blur { container: usize, for_ever: bool },
    /// A container's definition changes.
    Redefine { container: usize },
    /// The node gives the pod up.
    Evict,
    /// The outcomes of the last step are told once more.
    Echo,
}

#[derive(Debug, Clone)]
pub struct Script {
    pub spec: Spec,
    /// Of each container, in the pod's order, its instances' lives: round again after the last.
    pub lives: Vec<Vec<Life>>,
    pub events: Vec<(u64, Event)>,
    pub chaos: Vec<(u64, Chaos)>,
    pub make_takes: u64,
    pub make_fails: u32,
    pub stop_takes: u64,
}

/// How much is to be tried: 10, meant for a few seconds, unless `WARDLET_ROUNDS` says otherwise.
pub fn rounds() -> u32 {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(10).max(1)
}

/// A runner with a printed seed; `WARDLET_SEED` repeats it.
pub fn runner(cases: u32) -> TestRunner {
    let seed = std::env::var("WARDLET_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos()
    });
    println!("WARDLET_SEED={seed}");
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &seed.to_le_bytes());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(config, rng)
}

pub const HORIZON: u64 = 70;

pub fn settings() -> Settings {
    Settings {
        backoff_initial: secs(2),
        backoff_cap: secs(8),
        retry: secs(3),
        least_grace: secs(2),
        ..Settings::default()
    }
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub const fn kind_index(kind: ProbeKind) -> usize {
    match kind {
        ProbeKind::Startup => 0,
        ProbeKind::Liveness => 1,
        ProbeKind::Readiness => 2,
    }
}

impl Script {
    pub fn pod(&self) -> Pod {
        Pod::new(self.spec.clone()).unwrap()
    }

    pub fn index(&self, name: &str) -> usize {
        self.spec.init.iter().chain(&self.spec.containers).position(|c| c.name.as_str() == name).unwrap()
    }

    pub fn life(&self, container: usize, attempt: u32) -> &Life {
        let lives = &self.lives[container];
        &lives[usize::try_from(attempt).unwrap() % lives.len()]
    }
}

/// When an instance told at `now` to stop ends, and with what code.
pub fn end_after_stop(life: &Life, now: u64, grace: u64) -> (u64, i32) {
    if life.obeys_after <= grace { (now + life.obeys_after, life.term_code) } else { (now + grace, 137) }
}

fn life() -> impl Strategy<Value = Life> {
    let words = || proptest::collection::vec(proptest::bool::weighted(0.7), 1..4);
    let start = (0..3_u64, prop_oneof![6 => Just(0_u32), 1 => 1..3_u32], any::<bool>());
    let end = (
        proptest::option::weighted(0.7, 1..14_u64),
        prop_oneof![Just(0), Just(0), Just(1), Just(3)],
        0..7_u64,
        prop_oneof![Just(0), Just(143)],
    );
    let hooks = (0..4_u64, proptest::bool::weighted(0.8), 0..8_u64);
    (start, end, hooks, 0..3_u64, [words(), words(), words()]).prop_map(
        |(start, end, hooks, probe_takes, probes)| Life {
            start_takes: start.0,
            start_fails: start.1,
            pull_fails: start.2,
            ends_after: end.0,
            code: end.1,
            obeys_after: end.2,
            term_code: end.3,
            post_start_takes: hooks.0,
            post_start_succeeds: hooks.1,
            pre_stop_takes: hooks.2,
            probe_takes,
            probes,
        },
    )
}

fn policy() -> impl Strategy<Value = RestartPolicy> {
    prop_oneof![Just(RestartPolicy::Always), Just(RestartPolicy::OnFailure), Just(RestartPolicy::Never)]
}

fn probe(kind: ProbeKind) -> impl Strategy<Value = Option<Probe>> {
    let successes = if kind == ProbeKind::Readiness { 1..3_u32 } else { 1..2 };
    let probe = (0..4_u64, 1..4_u64, successes, 1..3_u32, proptest::option::weighted(0.3, 0..6_u64));
    let probe = probe.prop_map(|(delay, period, success_threshold, failure_threshold, grace)| Probe {
        initial_delay: secs(delay),
        period: secs(period),
        timeout: secs(1),
        success_threshold,
        failure_threshold,
        grace: grace.map(secs),
    });
    proptest::option::weighted(0.3, probe)
}

fn own_restart() -> impl Strategy<Value = Option<ContainerRestart>> {
    let rules = prop_oneof![
        2 => Just(vec![]),
        1 => Just(vec![RestartRule::In(vec![3])]),
        1 => Just(vec![RestartRule::NotIn(vec![0, 1])]),
    ];
    proptest::option::weighted(
        0.25,
        (policy(), rules).prop_map(|(policy, rules)| ContainerRestart { policy, rules }),
    )
}

/// A regular container or a sidecar; the name is given later.
fn full() -> impl Strategy<Value = Container> {
    let hooks = (proptest::bool::weighted(0.25), proptest::bool::weighted(0.25));
    let probes = (probe(ProbeKind::Startup), probe(ProbeKind::Liveness), probe(ProbeKind::Readiness));
    (own_restart(), hooks, probes).prop_map(|(restart, hooks, probes)| {
        let mut container = Container::named(lifecycle::ContainerName::new("unnamed").unwrap());
        container.restart = restart;
        (container.post_start, container.pre_stop) = hooks;
        (container.startup, container.liveness, container.readiness) = probes;
        container
    })
}

fn init() -> impl Strategy<Value = Container> {
    prop_oneof![
        full().prop_map(|mut sidecar| {
            let (policy, rules) = (RestartPolicy::Always, vec![]);
            sidecar.restart = Some(ContainerRestart { policy, rules });
            sidecar
        }),
        own_restart().prop_map(|restart| {
            let mut plain = Container::named(lifecycle::ContainerName::new("unnamed").unwrap());
            plain.restart = restart.filter(|own| own.policy != RestartPolicy::Always);
            plain
        }),
    ]
}

fn name_all(prefix: &str, containers: Vec<Container>) -> Vec<Container> {
    let named = containers.into_iter().enumerate().map(|(i, container)| {
        let name = lifecycle::ContainerName::new(format!("{prefix}{i}")).unwrap();
        Container { name, ..container }
    });
    named.collect()
}

fn spec() -> impl Strategy<Value = Spec> {
    let containers = (proptest::collection::vec(init(), 0..4), proptest::collection::vec(full(), 1..3));
    (policy(), containers, 0..8_u64, proptest::option::weighted(0.15, 5..60_u64)).prop_map(
        |(restart, (init, containers), grace, deadline)| {
            let mut spec = Spec::of(name_all("c", containers));
            spec.restart = restart;
            spec.init = name_all("i", init);
            spec.grace = secs(grace);
            spec.active_deadline = deadline.map(secs);
            spec
        },
    )
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let delete = proptest::option::weighted(0.5, 0..9_u64).prop_map(|grace| Event::Delete { grace });
    let lose = any::<bool>().prop_map(|containers_survive| Event::LoseSandbox { containers_survive });
    let event = prop_oneof![1 => delete, 1 => lose];
    proptest::collection::vec((0..HORIZON - 10, event), 0..4).prop_map(|mut events| {
        events.sort_by_key(|(at, _)| *at);
        events.dedup_by_key(|(at, _)| *at);
        events
    })
}

pub fn script() -> impl Strategy<Value = Script> {
    let sandbox = (0..3_u64, prop_oneof![5 => Just(0_u32), 1 => Just(1)], 0..2_u64);
    let lives = proptest::collection::vec(proptest::collection::vec(life(), 1..4), 5);
    (spec(), lives, events(), sandbox).prop_map(|(spec, lives, events, sandbox)| Script {
        spec,
        lives,
        events,
        chaos: vec![],
        make_takes: sandbox.0,
        make_fails: sandbox.1,
        stop_takes: sandbox.2,
    })
}

fn chaos() -> impl Strategy<Value = Vec<(u64, Chaos)>> {
    let container = || 0..5_usize;
    let chaos = prop_oneof![
        3 => Just(Chaos::Forget),
        2 => container().prop_map(|container| Chaos::Vanish { container }),
        2 => (container(), any::<bool>()).prop_map(|(container, for_ever)| Chaos::Blur { container, for_ever }),
        1 => container().prop_map(|container| Chaos::Redefine { container }),
        1 => Just(Chaos::Evict),
        2 => Just(Chaos::Echo),
    ];
    proptest::collection::vec((0..HORIZON - 10, chaos), 0..6)
}

/// A history in which the node misbehaves as well.
pub fn wild_script() -> impl Strategy<Value = Script> {
    (script(), chaos()).prop_map(|(script, mut chaos)| {
        chaos.sort_by_key(|(at, _)| *at);
        Script { chaos, ..script }
    })
}
