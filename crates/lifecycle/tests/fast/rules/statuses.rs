//! What is said of a pod: phases, conditions, reasons; and what a new state takes over from it.
use super::stage::{Stage, at, container, name, one, probe, probes, secs, sidecar, started};
use lifecycle::{
    ConditionKind, ConditionStatus, Exit, InstanceState, Malformed, Phase, Pod, Probe, ProbeKind,
    RestartPolicy, Settings, Spec, State, Verdict,
};

fn condition(stage: &Stage, kind: ConditionKind) -> (bool, &'static str, u64) {
    let found = stage.status().conditions.iter().find(|c| c.kind == kind).unwrap();
    (found.status == ConditionStatus::True, found.reason, found.since.millis() / 1000)
}

#[test]
fn a_container_that_was_never_there_waits_for_its_creation_or_for_the_init_containers() {
    let mut plain = Stage::new(one());
    plain.orders();
    assert_eq!((plain.state_of("a").as_str(), plain.status().phase), ("ContainerCreating", Phase::Pending));
    let mut later = Stage::new(Spec { init: vec![container("x")], ..one() });
    later.orders();
    assert_eq!(
        (later.state_of("a"), later.state_of("x")),
        ("PodInitializing".into(), "PodInitializing".into())
    );
}

#[test]
fn an_end_has_the_runtimes_reason_or_one_by_its_code() {
    for (code, reason, shown) in
        [(0, None, "Completed"), (1, None, "Error"), (137, Some("OOMKilled"), "OOMKilled")]
    {
        let mut stage = Stage::running(Spec { restart: RestartPolicy::Never, ..one() });
        let reason = reason.map(str::to_owned);
        let exit = Exit { code, reason, message: String::new(), started: Some(at(0)), finished: at(0) };
        stage.becomes("a", 0, InstanceState::Exited(exit));
        stage.orders();
        assert_eq!(stage.state_of("a"), shown);
    }
}

#[test]
fn a_pod_runs_when_all_its_containers_were_started_and_one_runs() {
    let mut stage = Stage::in_sandbox(Spec {
        restart: RestartPolicy::Never,
        ..Spec::of(vec![container("a"), container("b")])
    });
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Pending);
    stage.exits("b", 0, 1);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Running);
    stage.exits("a", 0, 0);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn a_sidecar_that_restarts_does_not_make_a_running_pod_pending() {
    let mut slow = sidecar("s");
    slow.startup = Some(probe());
    let mut stage = Stage::in_sandbox(Spec { init: vec![slow], ..one() });
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Pending);
    stage.probed("s", ProbeKind::Startup, Verdict::Success);
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage.exits("s", 0, 1);
    stage.orders();
    stage.runs("s", 1);
    stage.orders();
    assert_eq!((stage.status().phase, stage.of("s").started), (Phase::Running, false));
    assert!(condition(&stage, ConditionKind::Initialized).0);
    assert_eq!(condition(&stage, ConditionKind::Ready).1, "ContainersNotReady");
}

#[test]
fn conditions_come_one_after_the_other_and_keep_their_time() {
    let mut stage = Stage::in_sandbox(Spec { init: vec![container("x")], ..one() });
    stage.orders_at(1);
    assert_eq!(condition(&stage, ConditionKind::PodScheduled), (true, "", 0));
    assert_eq!(condition(&stage, ConditionKind::Initialized), (false, "ContainersNotInitialized", 0));
    stage.exits("x", 0, 0);
    stage.orders_at(2);
    assert_eq!(condition(&stage, ConditionKind::Initialized), (true, "", 2));
    assert_eq!(condition(&stage, ConditionKind::ContainersReady), (false, "ContainersNotReady", 0));
    stage.runs("a", 0);
    stage.orders_at(3);
    assert_eq!(condition(&stage, ConditionKind::ContainersReady), (true, "", 3));
    assert_eq!(condition(&stage, ConditionKind::Ready), (true, "", 3));
    stage.orders_at(9);
    assert_eq!(condition(&stage, ConditionKind::Ready), (true, "", 3));
}

#[test]
fn a_pod_is_ready_when_its_gates_are_open_too() {
    let mut stage = Stage::running(Spec { readiness_gates: vec!["example.com/lb".into()], ..one() });
    stage.orders();
    assert!(condition(&stage, ConditionKind::ContainersReady).0);
    assert_eq!(condition(&stage, ConditionKind::Ready), (false, "ReadinessGatesNotReady", 0));
    let message = |stage: &Stage| {
        let conditions = stage.status().conditions.clone();
        conditions.into_iter().find(|c| c.kind == ConditionKind::Ready).unwrap().message
    };
    let absent = r#"corresponding condition of pod readiness gate "example.com/lb" does not exist."#;
    assert_eq!(message(&stage), absent);
    stage.observed.conditions.insert("example.com/lb".into(), ConditionStatus::False);
    stage.orders();
    assert!(!condition(&stage, ConditionKind::Ready).0);
    let closed = r#"the status of pod readiness gate "example.com/lb" is not "True", but False"#;
    assert_eq!(message(&stage), closed);
    stage.observed.conditions.insert("example.com/lb".into(), ConditionStatus::True);
    stage.orders();
    assert!(condition(&stage, ConditionKind::Ready).0);
}

#[test]
fn a_pod_that_is_through_is_not_ready_and_says_so() {
    for (code, reason) in [(0, "PodCompleted"), (1, "PodFailed")] {
        let mut stage = Stage::running(Spec { restart: RestartPolicy::Never, ..one() });
        stage.exits("a", 0, code);
        stage.orders();
        assert_eq!(condition(&stage, ConditionKind::Ready).1, reason);
        assert_eq!(condition(&stage, ConditionKind::ContainersReady).1, reason);
    }
}

#[test]
fn a_final_phase_outlives_the_state() {
    let mut stage = Stage::running(Spec { restart: RestartPolicy::Never, ..one() });
    stage.exits("a", 0, 1);
    stage.orders();
    stage.state = State::resumed(Settings::default(), stage.status.as_ref().unwrap());
    stage.observed.instances.clear();
    stage.observed.under_way.clear();
    assert_eq!(started(&stage.orders()), [""; 0]);
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn a_ready_container_stays_ready_when_the_state_is_lost_until_a_probe_says_otherwise() {
    let mut probed = container("a");
    (probed.startup, probed.readiness) = (Some(probe()), Some(Probe { failure_threshold: 1, ..probe() }));
    let mut stage = Stage::running(Spec::of(vec![probed]));
    stage.orders();
    stage.probed("a", ProbeKind::Startup, Verdict::Success);
    stage.orders();
    stage.probed("a", ProbeKind::Readiness, Verdict::Success);
    stage.orders();
    stage.state = State::resumed(Settings::default(), stage.status.as_ref().unwrap());
    stage.observed.under_way.clear();
    assert_eq!(probes(&stage.orders_at(1)), ["readiness a"]);
    assert!(stage.of("a").ready && stage.of("a").started);
    stage.probed("a", ProbeKind::Readiness, Verdict::Failure);
    stage.orders();
    assert!(!stage.of("a").ready);
}

#[test]
fn the_deadline_is_counted_from_the_first_start() {
    let spec = Spec { active_deadline: Some(secs(60)), ..one() };
    let mut stage = Stage::running(spec);
    stage.orders();
    stage.state = State::resumed(Settings::default(), stage.status.as_ref().unwrap());
    stage.orders_at(50);
    assert_eq!(stage.wake, Some(60));
}

#[test]
fn a_hook_is_not_run_a_second_time_for_a_container_that_was_found_running() {
    let mut stage =
        Stage::running(Spec::of(vec![lifecycle::Container { post_start: true, ..container("a") }]));
    stage.state = State::new(Settings::default());
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().phase, Phase::Running);
}

#[test]
fn a_pod_that_makes_no_sense_is_refused_with_a_way_out() {
    let refusal = |spec: Spec| Pod::new(spec).unwrap_err();
    assert_eq!(refusal(Spec::of(vec![])), Malformed::NoContainers);
    let twice = Spec { init: vec![container("a")], ..one() };
    assert_eq!(refusal(twice), Malformed::NameTwice { name: name("a") });
    let mut probed = container("x");
    probed.liveness = Some(probe());
    let on_init = refusal(Spec { init: vec![probed.clone()], ..one() });
    assert_eq!(on_init.to_string(), "container x: a liveness probe on a container that has none by its role");
    assert!(on_init.hint().contains("sidecar"));
    probed.liveness = Some(Probe { period: secs(0), ..probe() });
    let zero = refusal(Spec::of(vec![probed.clone()]));
    assert_eq!(zero.to_string(), "container x: periodSeconds of the liveness probe is 0");
    probed.liveness = Some(Probe { success_threshold: 2, ..probe() });
    let threshold = refusal(Spec::of(vec![probed]));
    assert_eq!(threshold.to_string(), "container x: successThreshold of the liveness probe is 2, not 1");
}
