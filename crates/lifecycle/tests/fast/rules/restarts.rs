//! Restart policies, rules, and the wait between an end and the next start.
use super::stage::{Stage, container, name, one, secs, started, stopped};
use lifecycle::{
    Action, Container, ContainerRestart, ContainerState, InstanceState, Phase, RestartPolicy, RestartRule,
    Spec, StopReason, Task,
};

fn policy(restart: RestartPolicy) -> Spec {
    Spec { restart, ..one() }
}

/// Whether a container that ended with `code` comes again, and the pod's phase then.
fn after(spec: Spec, code: i32) -> (bool, Phase) {
    let mut stage = Stage::running(spec);
    stage.orders();
    stage.exits("a", 0, code);
    let comes = !started(&stage.orders()).is_empty();
    (comes, stage.status().phase)
}

#[test]
fn a_policy_says_what_happens_after_an_end() {
    assert_eq!(after(policy(RestartPolicy::Always), 0), (true, Phase::Running));
    assert_eq!(after(policy(RestartPolicy::Always), 1), (true, Phase::Running));
    assert_eq!(after(policy(RestartPolicy::OnFailure), 0), (false, Phase::Succeeded));
    assert_eq!(after(policy(RestartPolicy::OnFailure), 1), (true, Phase::Running));
    assert_eq!(after(policy(RestartPolicy::Never), 0), (false, Phase::Succeeded));
    assert_eq!(after(policy(RestartPolicy::Never), 1), (false, Phase::Failed));
}

#[test]
fn a_containers_own_policy_and_rules_come_before_the_pods() {
    let own = |policy, rules| {
        let restart = Some(ContainerRestart { policy, rules });
        Spec { restart: RestartPolicy::Always, ..Spec::of(vec![Container { restart, ..container("a") }]) }
    };
    assert_eq!(after(own(RestartPolicy::Never, vec![]), 1), (false, Phase::Failed));
    assert_eq!(after(own(RestartPolicy::OnFailure, vec![]), 0), (false, Phase::Succeeded));
    let on_42 = || vec![RestartRule::In(vec![42])];
    assert_eq!(after(own(RestartPolicy::Never, on_42()), 42), (true, Phase::Running));
    assert_eq!(after(own(RestartPolicy::Never, on_42()), 1), (false, Phase::Failed));
    let but_1 = || vec![RestartRule::NotIn(vec![1])];
    assert_eq!(after(own(RestartPolicy::Never, but_1()), 2), (true, Phase::Running));
    assert_eq!(after(own(RestartPolicy::Never, but_1()), 1), (false, Phase::Failed));
}

#[test]
fn waits_double_from_ten_seconds_to_five_minutes() {
    let mut stage = Stage::running(one());
    stage.orders();
    let (mut second, mut waits) = (1, vec![]);
    for attempt in 0..8 {
        stage.now = second;
        stage.exits("a", attempt, 1);
        let mut actions = stage.orders();
        if started(&actions).is_empty() {
            assert_eq!(stage.state_of("a"), "CrashLoopBackOff");
            let wake = stage.wake.unwrap();
            assert_eq!(stage.orders_at(wake - 1), []);
            actions = stage.orders_at(wake);
        }
        assert_eq!(started(&actions), [format!("a#{}", attempt + 1)]);
        waits.push(stage.now - second);
        stage.runs("a", attempt + 1);
        second = stage.now + 1;
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_container_that_ran_for_ten_minutes_waits_as_if_it_were_the_first_time() {
    let mut stage = Stage::running(one());
    stage.exits("a", 0, 1);
    stage.orders();
    stage.runs("a", 1);
    stage.orders();
    stage.now = 600;
    stage.exits("a", 1, 1);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.orders_at(610).len(), 1);
    stage.runs("a", 2);
    stage.orders();
    stage.now = 610 + 601;
    stage.exits("a", 2, 1);
    assert_eq!(started(&stage.orders()), ["a#3"]);
}

#[test]
fn a_container_that_waits_shows_its_last_end_and_how_often_it_came_back() {
    let mut stage = Stage::running(one());
    stage.exits("a", 0, 1);
    stage.orders();
    stage.exits("a", 1, 7);
    stage.orders();
    let status = stage.of("a");
    assert_eq!((status.restart_count, status.last.as_ref().map(|exit| exit.code)), (1, Some(7)));
    let ContainerState::Waiting { message, .. } = &status.state else { panic!("{status:?}") };
    assert_eq!(message, "back-off 10s restarting failed container a");
}

/// Between its creation and its start, a client saw the new count beside the state of the instance before.
#[test]
fn a_container_that_is_created_has_not_come_back_yet() {
    let mut stage = Stage::running(one());
    stage.exits("a", 0, 7);
    assert_eq!(started(&stage.orders()), ["a#1"]);
    stage.becomes("a", 1, InstanceState::Created);
    stage.orders();
    let status = stage.of("a");
    assert_eq!((status.restart_count, status.last.as_ref().map(|exit| exit.code)), (0, Some(7)));
    assert!(matches!(status.state, ContainerState::Waiting { .. }), "{status:?}");
    stage.runs("a", 1);
    stage.orders();
    assert_eq!(stage.of("a").restart_count, 1);
}

#[test]
fn another_definition_replaces_the_container_whatever_its_policy_and_does_not_wait() {
    let mut stage = Stage::running(policy(RestartPolicy::Never));
    stage.orders();
    let mut spec = policy(RestartPolicy::Never);
    spec.containers[0].revision = 1;
    stage.pod = lifecycle::Pod::new(spec).unwrap();
    assert_eq!(stopped(&stage.orders()), ["a 30s DefinitionChanged"]);
    stage.exits("a", 0, 0);
    assert_eq!(started(&stage.orders()), ["a#1"]);
    assert_eq!(stage.status().phase, Phase::Running);
}

#[test]
fn other_resources_that_need_a_restart_stop_that_instance_and_no_later_one() {
    let mut stage = Stage::running(policy(RestartPolicy::Never));
    stage.orders();
    let name = stage.pod.spec().containers[0].name.clone();
    stage.observed.outdated = [(name, 0)].into();
    assert_eq!(stopped(&stage.orders()), ["a 30s Resized"]);
    stage.exits("a", 0, 143);
    assert_eq!(started(&stage.orders()), ["a#1"]);
    stage.runs("a", 1);
    assert_eq!(stopped(&stage.orders()), [""; 0]);
    assert_eq!(stage.status().phase, Phase::Running);
}

fn removed(actions: &[lifecycle::Action]) -> Vec<u32> {
    let removed = actions.iter().filter_map(|action| match action {
        lifecycle::Action::RemoveContainer { attempt, .. } => Some(*attempt),
        _ => None,
    });
    removed.collect()
}

/// The instances that are removed when four of a container have ended and the fifth runs.
fn removed_of_four(settings: lifecycle::Settings, is_crowded: bool) -> Vec<u32> {
    let mut stage = Stage::in_sandbox(one());
    stage.state = lifecycle::State::new(settings);
    for attempt in 0..4 {
        stage.runs("a", attempt);
        stage.exits("a", attempt, 1);
    }
    stage.runs("a", 4);
    stage.observed.is_crowded = is_crowded;
    removed(&stage.orders())
}

#[test]
fn as_many_dead_instances_are_kept_as_the_node_is_set_to() {
    let kept = |dead_kept| lifecycle::Settings { dead_kept, ..Default::default() };
    assert_eq!(removed_of_four(kept(Some(1)), false), [0, 1, 2]);
    assert_eq!(removed_of_four(kept(Some(3)), false), [0]);
    assert_eq!(removed_of_four(kept(Some(0)), false), [0, 1, 2, 3]);
    assert_eq!(removed_of_four(kept(None), false), [0; 0]);
    assert_eq!(removed_of_four(kept(None), true), [0, 1, 2, 3], "the newest one stays");
    let young = lifecycle::Settings { dead_for: secs(3600), ..Default::default() };
    assert_eq!(removed_of_four(young, false), [0; 0]);
}

#[test]
fn a_container_that_disappears_has_ended_and_does_not_run_twice() {
    let mut stage = Stage::running(policy(RestartPolicy::Never));
    stage.orders();
    stage.observed.instances.clear();
    assert_eq!(started(&stage.orders()), [""; 0]);
    assert_eq!(
        (stage.state_of("a").as_str(), stage.status().phase),
        ("ContainerStatusUnknown", Phase::Failed)
    );
}

#[test]
fn a_container_that_disappears_comes_again_with_the_next_number() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.observed.instances.clear();
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

#[test]
fn of_dead_instances_the_last_is_left() {
    let mut stage = Stage::running(one());
    for attempt in 0..3 {
        stage.exits("a", attempt, 1);
        stage.now += 1000;
        stage.orders();
        stage.runs("a", attempt + 1);
    }
    let removed = |attempt| Action::RemoveContainer { container: name("a"), attempt };
    stage.done(&Task::Remove(name("a"), 0));
    assert_eq!(stage.orders(), [removed(0), removed(1)]);
}

#[test]
fn a_second_instance_of_a_container_is_stopped_and_no_third_is_started() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.runs("a", 1);
    let actions = stage.orders();
    assert_eq!(stopped(&actions), ["a 30s NotCurrent"]);
    let is_old =
        |a: &Action| matches!(a, Action::StopContainer { attempt: 0, reason: StopReason::NotCurrent, .. });
    assert!(actions.iter().any(is_old));
    stage.exits("a", 1, 1);
    assert_eq!(started(&stage.orders()), [""; 0]);
    stage.exits("a", 0, 1);
    assert_eq!(started(&stage.orders()), ["a#2"]);
}

#[test]
fn the_numbers_of_the_wait_can_be_set() {
    let mut stage = Stage::running(one());
    let settings =
        lifecycle::Settings { backoff_initial: secs(1), backoff_cap: secs(1), ..Default::default() };
    stage.state = lifecycle::State::new(settings);
    stage.exits("a", 0, 1);
    stage.orders();
    stage.exits("a", 1, 1);
    stage.orders();
    assert_eq!(stage.wake, Some(1));
}
