//! How a pod ends: deletion, deadline, eviction, its own end; grace, hooks and the sidecars' order.
use super::stage::{Stage, container, hooks, name, one, secs, sidecar, start, started, stopped};
use lifecycle::{
    Action, ConditionKind, ConditionStatus, Eviction, HookKind, InstanceState, Phase, RestartPolicy,
    Settings, Spec, Stage as At, State, Task, Verdict,
};

const NOTHING: [&str; 0] = [];

#[test]
fn a_deleted_pod_is_stopped_with_its_grace_then_its_sandbox() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.delete(None);
    assert_eq!(stopped(&stage.orders()), ["a 30s Deleted"]);
    assert_eq!((stage.orders(), stage.status().stage), (vec![], At::Terminating));
    stage.exits("a", 0, 0);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), []);
    assert_eq!((stage.status().phase, stage.status().stage), (Phase::Succeeded, At::Terminated));
}

#[test]
fn a_deleted_pod_with_a_container_that_was_killed_has_failed() {
    let mut stage = Stage::running(one());
    stage.delete(None);
    stage.orders();
    stage.exits("a", 0, 137);
    stage.orders();
    stage.sandbox_stopped(0);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn the_grace_asked_for_replaces_the_pods_and_two_seconds_are_the_least() {
    for (asked, given) in
        [(60, "a 60s Deleted"), (5, "a 5s Deleted"), (1, "a 2s Deleted"), (0, "a 2s Deleted")]
    {
        let mut stage = Stage::running(one());
        stage.delete(Some(asked));
        assert_eq!(stopped(&stage.orders()), [given]);
    }
}

#[test]
fn a_second_deletion_can_shorten_the_grace_and_never_lengthen_it() {
    let mut stage = Stage::running(one());
    stage.delete(Some(60));
    assert_eq!(stopped(&stage.orders()), ["a 60s Deleted"]);
    stage.delete(Some(90));
    assert_eq!(stopped(&stage.orders_at(1)), NOTHING);
    stage.delete(Some(5));
    assert_eq!(stopped(&stage.orders_at(2)), ["a 5s Deleted"]);
    assert_eq!(stopped(&stage.orders_at(3)), NOTHING);
}

#[test]
fn the_time_of_a_pre_stop_hook_is_taken_from_the_grace() {
    let mut stage = Stage::running(Spec::of(vec![lifecycle::Container { pre_stop: true, ..container("a") }]));
    stage.delete(Some(10));
    assert_eq!(hooks(&stage.orders()), ["PreStop a Some(10)"]);
    assert_eq!(stage.orders_at(3), []);
    stage.now = 4;
    stage.hooked("a", HookKind::PreStop, Verdict::Success);
    assert_eq!(stopped(&stage.orders()), ["a 6s Deleted"]);
}

#[test]
fn a_container_that_runs_only_after_the_deletion_has_its_hook_and_the_whole_grace() {
    let hooked = lifecycle::Container { pre_stop: true, ..container("a") };
    let mut stage = Stage::in_sandbox(Spec::of(vec![hooked]));
    assert_eq!(stage.orders(), [start("a", 0)]);
    stage.delete(Some(10));
    assert_eq!(stage.orders_at(1), []);
    stage.now = 15;
    stage.runs("a", 0);
    assert_eq!(hooks(&stage.orders()), ["PreStop a Some(10)"]);
    stage.delete(Some(5));
    stage.hooked("a", HookKind::PreStop, Verdict::Success);
    assert_eq!(stopped(&stage.orders_at(16)), ["a 5s Deleted"]);
}

#[test]
fn a_pre_stop_hook_that_does_not_end_is_left_behind_and_two_seconds_remain() {
    let mut stage = Stage::running(Spec::of(vec![lifecycle::Container { pre_stop: true, ..container("a") }]));
    stage.delete(Some(10));
    stage.orders();
    assert_eq!(stage.wake, Some(10));
    assert_eq!(stopped(&stage.orders_at(10)), ["a 2s Deleted"]);
}

#[test]
fn a_pre_stop_hook_that_fails_is_no_reason_to_stay() {
    let mut stage = Stage::running(Spec::of(vec![lifecycle::Container { pre_stop: true, ..container("a") }]));
    stage.delete(Some(10));
    stage.orders();
    stage.hooked("a", HookKind::PreStop, Verdict::Failure);
    assert_eq!(stopped(&stage.orders()), ["a 10s Deleted"]);
}

/// Sidecars s and t and a regular container a, all running.
fn with_sidecars() -> Stage {
    let mut stage = Stage::in_sandbox(Spec { init: vec![sidecar("s"), sidecar("t")], ..one() });
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    stage.runs("t", 0);
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage
}

#[test]
fn sidecars_end_after_the_regular_containers_in_reverse_order_within_one_grace() {
    let mut stage = with_sidecars();
    stage.delete(Some(20));
    assert_eq!(stopped(&stage.orders()), ["a 20s Deleted"]);
    stage.now = 5;
    stage.exits("a", 0, 0);
    assert_eq!(stopped(&stage.orders()), ["t 15s Deleted"]);
    stage.now = 12;
    stage.exits("t", 0, 0);
    assert_eq!(stopped(&stage.orders()), ["s 8s Deleted"]);
    stage.exits("s", 0, 0);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn sidecars_do_not_wait_longer_than_the_grace() {
    let mut stage = with_sidecars();
    stage.delete(Some(20));
    stage.orders();
    assert_eq!(stage.wake, Some(20));
    assert_eq!(stopped(&stage.orders_at(20)), ["s 2s Deleted", "t 2s Deleted"]);
}

#[test]
fn pre_stop_hooks_of_sidecars_do_not_wait_for_their_turn() {
    let hooked = lifecycle::Container { pre_stop: true, ..sidecar("s") };
    let mut stage = Stage::in_sandbox(Spec { init: vec![hooked], ..one() });
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    stage.runs("a", 0);
    stage.delete(Some(20));
    let actions = stage.orders();
    assert_eq!(
        (hooks(&actions), stopped(&actions)),
        (vec!["PreStop s Some(20)".to_owned()], vec!["a 20s Deleted".to_owned()])
    );
}

#[test]
fn when_the_regular_containers_have_ended_the_sidecars_are_stopped_and_not_started_again() {
    let mut stage =
        Stage::in_sandbox(Spec { restart: RestartPolicy::Never, init: vec![sidecar("s")], ..one() });
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage.exits("a", 0, 0);
    let actions = stage.orders();
    assert_eq!(stopped(&actions), ["s 30s PodFinished"]);
    assert_eq!(stage.status().phase, Phase::Running);
    stage.exits("s", 0, 143);
    let actions = stage.orders();
    assert_eq!((started(&actions), stage.status().phase), (vec![], Phase::Succeeded));
}

#[test]
fn a_pod_past_its_deadline_has_failed_at_once_and_is_ended() {
    let mut stage = Stage::running(Spec { active_deadline: Some(secs(60)), ..one() });
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.wake, Some(60));
    assert_eq!(stopped(&stage.orders_at(60)), ["a 30s DeadlineExceeded"]);
    let status = stage.status();
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("DeadlineExceeded")));
    stage.exits("a", 0, 0);
    stage.orders();
    stage.sandbox_stopped(0);
    stage.orders();
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn an_evicted_pod_has_failed_and_says_that_it_was_disrupted() {
    let mut stage = Stage::running(one());
    let (reason, message) = ("Evicted".to_owned(), "no memory".to_owned());
    stage.pod = stage.pod.clone().evicted(Eviction { reason, message, grace: Some(secs(4)) });
    assert_eq!(stopped(&stage.orders()), ["a 4s Evicted"]);
    let status = stage.status();
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("Evicted")));
    let condition = status.conditions.iter().find(|c| c.kind == ConditionKind::DisruptionTarget).unwrap();
    assert_eq!((condition.status, condition.reason), (ConditionStatus::True, "TerminationByKubelet"));
}

#[test]
fn nothing_is_started_in_a_pod_that_ends_and_what_was_being_started_is_stopped() {
    let mut stage = Stage::in_sandbox(Spec::of(vec![container("a"), container("b")]));
    stage.orders();
    stage.runs("b", 0);
    stage.delete(None);
    assert_eq!(stopped(&stage.orders()), ["b 30s Deleted"]);
    stage.exits("b", 0, 1);
    assert_eq!(stage.orders(), []);
    stage.runs("a", 0);
    assert_eq!(stopped(&stage.orders()), ["a 30s Deleted"]);
}

#[test]
fn a_sandbox_that_was_being_made_for_a_deleted_pod_is_stopped_when_it_is_there() {
    let mut stage = Stage::new(one());
    stage.orders();
    stage.delete(None);
    assert_eq!((stage.orders(), stage.status().stage), (vec![], At::Terminating));
    stage.sandbox(0);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn a_pod_deleted_before_anything_was_done_is_over_and_failed() {
    let mut stage = Stage::new(one());
    stage.delete(None);
    assert_eq!(stage.orders(), []);
    assert_eq!((stage.status().stage, stage.status().phase), (At::Terminated, Phase::Failed));
}

#[test]
fn a_stop_that_failed_is_tried_again_after_a_while() {
    let mut stage = Stage::running(one());
    stage.delete(Some(5));
    stage.orders();
    stage.fails(Task::Stop(name("a"), 0), "Unavailable");
    assert_eq!(stage.orders(), []);
    assert_eq!(stopped(&stage.orders_at(10)), ["a 2s Deleted"]);
}

/// Under load a runtime lists a container as running for a moment after it was stopped: it was stopped twice.
#[test]
fn a_stopped_container_is_stopped_again_only_if_it_still_runs_a_second_later() {
    let mut stage = Stage::running(one());
    stage.delete(None);
    assert_eq!(stopped(&stage.orders()), ["a 30s Deleted"]);
    stage.now = 3;
    let told = || lifecycle::Outcome::ContainerStopped { container: name("a"), attempt: 0 };
    stage.done(&Task::Stop(name("a"), 0));
    stage.observed.outcomes.push(told());
    assert_eq!((stopped(&stage.orders()), stage.wake), (vec![], Some(4)));
    assert_eq!(stopped(&stage.orders()), NOTHING);
    assert_eq!(stopped(&stage.orders_at(4)), ["a 26s Deleted"]);
    assert_eq!(stopped(&stage.orders_at(5)), NOTHING);
    stage.exits("a", 0, 0);
    stage.observed.outcomes.push(told());
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn a_container_of_which_nothing_is_known_does_not_keep_a_pod_from_ending() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.becomes("a", 0, InstanceState::Unknown);
    stage.delete(None);
    assert_eq!(stopped(&stage.orders()), ["a 30s Deleted"]);
    stage.done(&Task::Stop(name("a"), 0));
    let stopped = lifecycle::Outcome::ContainerStopped { container: name("a"), attempt: 0 };
    stage.observed.outcomes.push(stopped);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
    assert_eq!(stage.state_of("a"), "ContainerStatusUnknown");
}

#[test]
fn what_has_ended_by_a_status_has_ended_though_the_runtime_does_not_know() {
    let spec = Spec { init: vec![sidecar("s")], restart: RestartPolicy::Never, ..one() };
    let mut stage = Stage::in_sandbox(spec);
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage.becomes("a", 0, InstanceState::Unknown);
    assert_eq!(stopped(&stage.orders()), ["a 30s StateUnknown"]);
    let told = lifecycle::Outcome::ContainerStopped { container: name("a"), attempt: 0 };
    stage.done(&Task::Stop(name("a"), 0));
    stage.observed.outcomes.push(told.clone());
    assert_eq!(stopped(&stage.orders()), ["s 30s PodFinished"]);
    assert_eq!((stage.status().stage, stage.status().phase), (At::Terminating, Phase::Running));

    stage.state = State::resumed(Settings::default(), stage.status.as_ref().unwrap());
    assert_eq!(stopped(&stage.orders()), ["a 30s PodFinished"], "again, to be sure");
    assert_eq!(
        (stage.status().stage, stage.state_of("a").as_str()),
        (At::Terminating, "ContainerStatusUnknown")
    );
    stage.exits("s", 0, 0);
    stage.done(&Task::Stop(name("a"), 0));
    stage.observed.outcomes.push(told);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn ephemeral_containers_end_with_the_pod() {
    let mut stage = Stage::in_sandbox(Spec { ephemeral: vec![container("debug")], ..one() });
    stage.orders();
    stage.runs("debug", 0);
    stage.runs("a", 0);
    stage.delete(None);
    assert_eq!(stopped(&stage.orders()), ["debug 30s Deleted", "a 30s Deleted"]);
}

/// A pod with ten minutes' grace that is deleted at 1, while its container is being created.
fn deleted_while_it_starts() -> Stage {
    let mut stage = Stage::in_sandbox(Spec { grace: secs(600), ..one() });
    assert_eq!(stage.orders(), [start("a", 0)]);
    stage.delete(None);
    assert_eq!(stage.orders_at(1), []);
    stage
}

#[test]
fn a_shorter_grace_holds_for_a_late_container_too() {
    let mut stage = deleted_while_it_starts();
    stage.now = 61;
    stage.runs("a", 0);
    assert_eq!(stopped(&stage.orders()), ["a 600s Deleted"]);
    stage.delete(Some(0));
    assert_eq!(stopped(&stage.orders_at(62)), ["a 2s Deleted"]);

    let mut stage = deleted_while_it_starts();
    stage.delete(Some(0));
    assert_eq!(stage.orders_at(100), []);
    stage.now = 101;
    stage.runs("a", 0);
    assert_eq!(stopped(&stage.orders()), ["a 2s Deleted"]);
}

#[test]
fn a_sidecar_stays_for_a_container_that_runs_late() {
    let mut stage = Stage::in_sandbox(Spec { init: vec![sidecar("s")], ..one() });
    assert_eq!(stage.orders(), [start("s", 0)]);
    stage.runs("s", 0);
    assert_eq!(stage.orders(), [start("a", 0)]);
    stage.delete(None);
    assert_eq!(stage.orders_at(1), []);
    stage.now = 25;
    stage.runs("a", 0);
    assert_eq!(stopped(&stage.orders()), ["a 30s Deleted"]);
    assert_eq!(stopped(&stage.orders_at(31)), [""; 0]);
    assert_eq!(stage.wake, Some(55));
    assert_eq!(stopped(&stage.orders_at(55)), ["s 2s Deleted"]);
}
