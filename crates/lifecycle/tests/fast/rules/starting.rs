//! From nothing to running: sandbox, init containers, sidecars, regular and ephemeral containers.
use super::stage::{Stage, at, container, hooks, name, one, probe, secs, sidecar, start, started};
use lifecycle::{
    Action, ContainerRestart, HookKind, InstanceState, Phase, Probe, ProbeKind, RestartPolicy, RestartRule,
    Spec, Task, Verdict,
};

fn with_init(init: Vec<lifecycle::Container>) -> Spec {
    Spec { init, ..one() }
}

#[test]
fn first_comes_a_sandbox_and_then_its_containers() {
    let mut stage = Stage::new(one());
    assert_eq!(stage.orders(), [Action::MakeSandbox { attempt: 0 }]);
    assert_eq!(stage.orders(), []);
    stage.sandbox(0);
    assert_eq!(stage.orders(), [start("a", 0)]);
    assert_eq!(stage.orders(), []);
    stage.runs("a", 0);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().phase, Phase::Running);
}

#[test]
fn what_was_ordered_and_is_lost_is_ordered_again() {
    let mut stage = Stage::in_sandbox(one());
    assert_eq!(stage.orders(), [start("a", 0)]);
    stage.done(&Task::Start(name("a"), 0));
    assert_eq!(stage.orders(), [start("a", 0)]);
}

#[test]
fn a_sandbox_that_failed_is_tried_again_after_a_while() {
    let mut stage = Stage::new(one());
    stage.orders();
    stage.fails(Task::MakeSandbox(0), "FailedCreatePodSandBox");
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().message.as_deref(), Some("because"), "no container says why it waits");
    assert_eq!(stage.wake, Some(10));
    assert_eq!(stage.orders_at(10), [Action::MakeSandbox { attempt: 0 }]);
    stage.sandbox(0);
    stage.orders();
    assert_eq!(stage.status().message, None);
}

#[test]
fn init_containers_run_one_after_the_other_and_before_the_rest() {
    let mut stage = Stage::in_sandbox(with_init(vec![container("x"), container("y")]));
    assert_eq!(started(&stage.orders()), ["x#0"]);
    stage.runs("x", 0);
    assert_eq!(stage.orders(), []);
    stage.exits("x", 0, 0);
    assert_eq!(started(&stage.orders()), ["y#0"]);
    stage.exits("y", 0, 0);
    assert_eq!(started(&stage.orders()), ["a#0"]);
}

#[test]
fn an_init_container_that_fails_is_tried_again_and_nothing_passes_it() {
    let mut stage = Stage::in_sandbox(with_init(vec![container("x"), container("y")]));
    stage.orders();
    stage.exits("x", 0, 1);
    assert_eq!(started(&stage.orders()), ["x#1"]);
    stage.exits("x", 1, 1);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.state_of("x"), "CrashLoopBackOff");
    assert_eq!((stage.status().phase, stage.wake), (Phase::Pending, Some(10)));
}

#[test]
fn an_init_container_that_fails_in_a_pod_that_never_restarts_fails_the_pod() {
    let mut stage =
        Stage::in_sandbox(Spec { restart: RestartPolicy::Never, ..with_init(vec![container("x")]) });
    stage.orders();
    stage.exits("x", 0, 1);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn an_init_container_may_have_rules_of_its_own() {
    let rules = vec![RestartRule::In(vec![42])];
    let restart = Some(ContainerRestart { policy: RestartPolicy::Never, rules });
    let init = vec![lifecycle::Container { restart, ..container("x") }];
    let mut stage = Stage::in_sandbox(Spec { restart: RestartPolicy::Never, ..with_init(init) });
    stage.orders();
    stage.exits("x", 0, 42);
    assert_eq!(started(&stage.orders()), ["x#1"]);
    stage.exits("x", 1, 41);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn a_sidecar_lets_the_next_start_once_it_runs() {
    let mut stage = Stage::in_sandbox(with_init(vec![sidecar("s"), container("x")]));
    assert_eq!(started(&stage.orders()), ["s#0"]);
    stage.runs("s", 0);
    assert_eq!(started(&stage.orders()), ["x#0"]);
}

#[test]
fn a_sidecar_with_a_startup_probe_lets_the_next_start_when_it_has_passed() {
    let mut slow = sidecar("s");
    slow.startup = Some(probe());
    let mut stage = Stage::in_sandbox(with_init(vec![slow, container("x")]));
    stage.orders();
    stage.runs("s", 0);
    assert_eq!(started(&stage.orders()), [""; 0]);
    stage.probed("s", ProbeKind::Startup, Verdict::Failure);
    assert_eq!(started(&stage.orders()), [""; 0]);
    stage.orders_at(10);
    stage.probed("s", ProbeKind::Startup, Verdict::Success);
    assert_eq!(started(&stage.orders()), ["x#0"]);
}

#[test]
fn a_sidecar_with_a_post_start_hook_lets_the_next_start_when_it_is_done() {
    let mut hooked = sidecar("s");
    hooked.post_start = true;
    let mut stage = Stage::in_sandbox(with_init(vec![hooked, container("x")]));
    stage.orders();
    stage.runs("s", 0);
    assert_eq!(hooks(&stage.orders()), ["PostStart s None"]);
    stage.hooked("s", HookKind::PostStart, Verdict::Success);
    assert_eq!(started(&stage.orders()), ["x#0"]);
}

#[test]
fn a_sidecar_that_ends_is_started_again_while_others_go_on() {
    let mut stage =
        Stage::in_sandbox(Spec { restart: RestartPolicy::Never, ..with_init(vec![sidecar("s")]) });
    stage.orders();
    stage.runs("s", 0);
    assert_eq!(started(&stage.orders()), ["a#0"]);
    stage.runs("a", 0);
    stage.exits("s", 0, 0);
    assert_eq!(started(&stage.orders()), ["s#1"]);
    assert_eq!(stage.status().phase, Phase::Running);
}

#[test]
fn init_containers_forgotten_by_the_runtime_are_not_run_again() {
    let mut stage = Stage::in_sandbox(with_init(vec![container("x")]));
    stage.orders();
    stage.exits("x", 0, 0);
    stage.orders();
    stage.runs("a", 0);
    stage.observed.instances.retain(|i| i.container != name("x"));
    stage.state = lifecycle::State::new(lifecycle::Settings::default());
    assert_eq!(stage.orders(), []);
    assert_eq!((stage.state_of("x").as_str(), stage.of("x").ready), ("Completed", true));
    assert_eq!(stage.status().phase, Phase::Running);
}

#[test]
fn containers_after_one_with_a_post_start_hook_wait_for_it() {
    let mut first = container("a");
    first.post_start = true;
    let mut stage = Stage::in_sandbox(Spec::of(vec![first, container("b"), container("c")]));
    assert_eq!(started(&stage.orders()), ["a#0"]);
    stage.runs("a", 0);
    assert_eq!(hooks(&stage.orders()), ["PostStart a None"]);
    stage.hooked("a", HookKind::PostStart, Verdict::Success);
    assert_eq!(started(&stage.orders()), ["b#0", "c#0"]);
}

#[test]
fn a_post_start_hook_that_fails_kills_its_container_and_holds_nobody() {
    let mut first = container("a");
    first.post_start = true;
    let mut stage = Stage::in_sandbox(Spec::of(vec![first, container("b")]));
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage.hooked("a", HookKind::PostStart, Verdict::Failure);
    let actions = stage.orders();
    assert_eq!(super::stage::stopped(&actions), ["a 30s FailedPostStartHook"]);
    assert_eq!(started(&actions), ["b#0"]);
    stage.exits("a", 0, 143);
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

#[test]
fn an_ephemeral_container_is_started_once_also_before_the_pod_is_initialised() {
    let mut stage =
        Stage::in_sandbox(Spec { ephemeral: vec![container("debug")], ..with_init(vec![container("x")]) });
    assert_eq!(started(&stage.orders()), ["debug#0", "x#0"]);
    stage.runs("x", 0);
    stage.exits("debug", 0, 1);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.state_of("debug"), "Error");
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_again_after_ever_longer_waits() {
    let mut stage = Stage::in_sandbox(one());
    let (mut second, mut waits) = (0, vec![]);
    stage.orders();
    for _ in 0..7 {
        stage.fails(Task::Start(name("a"), 0), "ErrImagePull");
        let failed = second;
        assert_eq!(stage.orders(), []);
        assert_eq!(stage.state_of("a"), "ErrImagePull");
        while stage.orders_at(second).is_empty() {
            second = stage.wake.unwrap();
        }
        waits.push(second - failed);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn an_image_that_cannot_be_pulled_is_first_an_error_and_then_a_wait() {
    let mut stage = Stage::in_sandbox(one());
    stage.orders();
    stage.fails(Task::Start(name("a"), 0), "ErrImagePull");
    stage.orders();
    stage.orders_at(10);
    stage.fails(Task::Start(name("a"), 0), "ErrImagePull");
    stage.orders();
    assert_eq!((stage.state_of("a").as_str(), stage.wake), ("ErrImagePull", Some(20)));
    assert_eq!(stage.orders_at(20), []);
    assert_eq!((stage.state_of("a").as_str(), stage.wake), ("ImagePullBackOff", Some(30)));
}

#[test]
fn a_container_that_could_not_be_created_says_why_and_is_tried_again() {
    let mut stage = Stage::in_sandbox(one());
    stage.orders();
    stage.fails(Task::Start(name("a"), 0), "CreateContainerConfigError");
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.state_of("a"), "CreateContainerConfigError");
    assert_eq!(started(&stage.orders_at(10)), ["a#0"]);
}

#[test]
fn a_container_that_was_made_and_could_not_be_started_is_made_anew() {
    let mut stage = Stage::in_sandbox(one());
    stage.orders();
    stage.becomes("a", 0, InstanceState::Created);
    stage.fails(Task::Start(name("a"), 0), "RunContainerError");
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.state_of("a"), "RunContainerError");
    assert_eq!(started(&stage.orders_at(10)), ["a#1"]);
}

#[test]
fn a_container_in_an_unknown_state_is_stopped_before_it_is_started_again() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.becomes("a", 0, InstanceState::Unknown);
    let actions = stage.orders();
    assert_eq!(
        (super::stage::stopped(&actions), started(&actions)),
        (vec!["a 30s StateUnknown".to_owned()], vec![])
    );
    stage.exits("a", 0, 137);
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

#[test]
fn the_time_is_only_what_it_is_told() {
    let mut late = container("a");
    late.readiness = Some(Probe { initial_delay: secs(1_000_000), ..probe() });
    let mut stage = Stage::running(Spec::of(vec![late]));
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.wake, Some(1_000_000));
    assert_eq!(at(7).since(at(9)), secs(0));
}

#[test]
fn an_image_that_could_not_be_pulled_does_not_keep_its_replacement_waiting() {
    let mut stage = Stage::in_sandbox(one());
    assert_eq!(stage.orders(), [start("a", 0)]);
    stage.fails(Task::Start(name("a"), 0), "ErrImagePull");
    assert_eq!(stage.orders(), []);
    let mut spec = one();
    spec.containers[0].revision = 7;
    stage.update(spec);
    assert_eq!(stage.orders(), [start("a", 0)]);
}

#[test]
fn an_update_that_leaves_a_container_as_it_is_leaves_its_wait_too() {
    let mut stage = Stage::in_sandbox(one());
    stage.orders();
    stage.fails(Task::Start(name("a"), 0), "ErrImagePull");
    stage.update(Spec { active_deadline: Some(secs(90)), ..one() });
    assert_eq!(stage.orders(), []);
}
