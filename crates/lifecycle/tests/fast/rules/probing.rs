//! Startup, liveness and readiness probes.
use super::stage::{Stage, at, container, name, probe, probes, secs, started, stopped};
use lifecycle::{Container, Outcome, Phase, Probe, ProbeKind, RestartPolicy, Spec, Verdict};

fn with(kind: ProbeKind, probe: Probe) -> Spec {
    let mut container = container("a");
    *probe_of(&mut container, kind) = Some(probe);
    Spec::of(vec![container])
}

fn probe_of(container: &mut Container, kind: ProbeKind) -> &mut Option<Probe> {
    match kind {
        ProbeKind::Startup => &mut container.startup,
        ProbeKind::Liveness => &mut container.liveness,
        ProbeKind::Readiness => &mut container.readiness,
    }
}

#[test]
fn a_probe_is_first_run_after_its_delay_and_then_every_period() {
    let mut stage = Stage::running(with(ProbeKind::Readiness, Probe { initial_delay: secs(5), ..probe() }));
    assert_eq!(probes(&stage.orders()), [""; 0]);
    assert_eq!(stage.wake, Some(5));
    assert_eq!(probes(&stage.orders_at(5)), ["readiness a"]);
    assert_eq!(stage.orders_at(6), []);
    stage.now = 5;
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    assert_eq!(probes(&stage.orders_at(7)), [""; 0]);
    assert_eq!(stage.wake, Some(15));
    assert_eq!(probes(&stage.orders_at(15)), ["readiness a"]);
}

#[test]
fn a_probe_that_takes_longer_than_its_period_is_never_run_twice_at_once() {
    let mut stage = Stage::running(with(ProbeKind::Readiness, probe()));
    assert_eq!(probes(&stage.orders()), ["readiness a"]);
    assert_eq!(stage.orders_at(25), []);
    stage.now = 0;
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    assert_eq!(probes(&stage.orders_at(26)), ["readiness a"]);
}

#[test]
fn a_container_is_not_ready_before_its_probe_says_so() {
    let mut stage = Stage::running(with(ProbeKind::Readiness, Probe { success_threshold: 2, ..probe() }));
    stage.orders();
    assert!(!stage.of("a").ready);
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    stage.orders();
    assert!(!stage.of("a").ready);
    stage.orders_at(10);
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    stage.orders();
    assert!(stage.of("a").ready);
}

#[test]
fn a_ready_container_is_unready_after_so_many_failures_in_a_row() {
    let mut stage = Stage::running(with(ProbeKind::Readiness, Probe { failure_threshold: 2, ..probe() }));
    let mut ready = vec![];
    stage.orders();
    for (second, verdict) in [
        (0, Verdict::Success),
        (10, Verdict::Failure),
        (20, Verdict::Success),
        (30, Verdict::Failure),
        (40, Verdict::Failure),
    ] {
        stage.orders_at(second);
        stage.probed("a", ProbeKind::Readiness, verdict);
        stage.orders();
        ready.push(stage.of("a").ready);
    }
    assert_eq!(ready, [true, true, true, true, false]);
    assert_eq!(stage.state_of("a"), "Running");
}

#[test]
fn a_probe_that_could_not_be_run_says_nothing() {
    let mut stage = Stage::running(with(ProbeKind::Liveness, Probe { failure_threshold: 1, ..probe() }));
    stage.orders();
    stage.probed("a", ProbeKind::Liveness, Verdict::Error);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.wake, Some(10));
}

#[test]
fn a_result_told_twice_counts_once() {
    let mut stage = Stage::running(with(ProbeKind::Liveness, Probe { failure_threshold: 2, ..probe() }));
    stage.orders();
    stage.probed("a", ProbeKind::Liveness, Verdict::Failure);
    let told = stage.observed.outcomes.clone();
    stage.orders();
    stage.observed.outcomes = told;
    assert_eq!(stopped(&stage.orders()), [""; 0]);
}

#[test]
fn a_result_of_an_instance_that_is_gone_counts_for_nobody() {
    let mut stage = Stage::running(with(ProbeKind::Readiness, probe()));
    stage.orders();
    stage.exits("a", 0, 1);
    stage.orders();
    stage.runs("a", 1);
    let (container, kind, verdict) = (name("a"), ProbeKind::Readiness, Verdict::Success);
    stage.observed.outcomes.push(Outcome::ProbeRan { container, attempt: 0, kind, begun: at(0), verdict });
    stage.orders();
    assert!(!stage.of("a").ready);
}

#[test]
fn liveness_that_fails_restarts_the_container_with_the_probes_own_grace() {
    let dying = Probe { failure_threshold: 1, grace: Some(secs(3)), ..probe() };
    let mut stage = Stage::running(with(ProbeKind::Liveness, dying));
    stage.orders();
    stage.probed("a", ProbeKind::Liveness, Verdict::Failure);
    let actions = stage.orders();
    assert_eq!((stopped(&actions), probes(&actions)), (vec!["a 3s LivenessProbe".to_owned()], vec![]));
    stage.exits("a", 0, 143);
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

#[test]
fn a_container_killed_by_its_probe_comes_again_on_failure_even_if_it_ended_well() {
    let dying = with(ProbeKind::Liveness, Probe { failure_threshold: 1, ..probe() });
    for (restart, comes) in [(RestartPolicy::OnFailure, true), (RestartPolicy::Never, false)] {
        let mut stage = Stage::running(Spec { restart, ..dying.clone() });
        stage.orders();
        stage.probed("a", ProbeKind::Liveness, Verdict::Failure);
        stage.orders();
        stage.exits("a", 0, 0);
        assert_eq!(!started(&stage.orders()).is_empty(), comes);
        assert_eq!(stage.status().phase, if comes { Phase::Running } else { Phase::Succeeded });
    }
}

#[test]
fn the_others_wait_for_the_startup_probe_which_is_then_done() {
    let mut all = container("a");
    (all.startup, all.liveness, all.readiness) = (Some(probe()), Some(probe()), Some(probe()));
    let mut stage = Stage::running(Spec::of(vec![all]));
    assert_eq!(probes(&stage.orders()), ["startup a"]);
    assert!(!stage.of("a").started);
    stage.probed("a", ProbeKind::Startup, Verdict::Success);
    assert_eq!(probes(&stage.orders()), ["liveness a", "readiness a"]);
    assert!(stage.of("a").started);
    stage.probed("a", ProbeKind::Liveness, Verdict::Success);
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    stage.orders();
    assert_eq!(probes(&stage.orders_at(10)), ["liveness a", "readiness a"]);
}

#[test]
fn a_container_that_does_not_come_up_is_restarted() {
    let mut stage = Stage::running(with(ProbeKind::Startup, Probe { failure_threshold: 2, ..probe() }));
    stage.orders();
    stage.probed("a", ProbeKind::Startup, Verdict::Failure);
    assert_eq!(stopped(&stage.orders()), [""; 0]);
    stage.orders_at(10);
    stage.probed("a", ProbeKind::Startup, Verdict::Failure);
    assert_eq!(stopped(&stage.orders()), ["a 30s StartupProbe"]);
}

#[test]
fn a_new_instance_is_probed_from_the_beginning() {
    let mut stage = Stage::running(with(ProbeKind::Startup, probe()));
    stage.orders();
    stage.probed("a", ProbeKind::Startup, Verdict::Success);
    stage.orders();
    stage.exits("a", 0, 1);
    stage.orders();
    stage.runs("a", 1);
    assert_eq!(probes(&stage.orders()), ["startup a"]);
    assert!(!stage.of("a").started);
}

#[test]
fn a_pod_that_is_deleted_is_asked_for_readiness_only() {
    let mut both = container("a");
    (both.liveness, both.readiness) = (Some(probe()), Some(probe()));
    let mut stage = Stage::running(Spec::of(vec![both]));
    stage.orders();
    stage.probed("a", ProbeKind::Liveness, Verdict::Success);
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    stage.delete(None);
    stage.orders();
    assert_eq!(probes(&stage.orders_at(10)), ["readiness a"]);
}
