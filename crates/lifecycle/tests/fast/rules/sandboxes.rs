//! A sandbox that is lost or no longer fits, and what runs again then.
use super::stage::{Stage, container, one, sidecar, started, stopped};
use lifecycle::{Action, ConditionKind, ConditionStatus, Network, Phase, RestartPolicy, Sandbox, Spec};

/// A pod whose container "a" ran and died with its sandbox.
fn lost(spec: Spec, code: i32) -> Stage {
    let mut stage = Stage::running(spec);
    stage.orders();
    stage.sandbox_lost();
    stage.exits("a", 0, code);
    stage
}

#[test]
fn a_lost_sandbox_is_stopped_and_another_made_with_the_next_number() {
    let mut stage = lost(one(), 137);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), [Action::MakeSandbox { attempt: 1 }]);
    stage.sandbox(1);
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

#[test]
fn containers_that_outlive_their_sandbox_are_stopped_before_another_is_made() {
    let mut stage = Stage::running(one());
    stage.orders();
    stage.sandbox_lost();
    assert_eq!(stopped(&stage.orders()), ["a 30s SandboxChanged"]);
    stage.exits("a", 0, 143);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn a_pod_that_never_restarts_gets_no_other_sandbox_once_something_has_run() {
    let mut stage = lost(Spec { restart: RestartPolicy::Never, ..one() }, 137);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }]);
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn a_pod_that_never_restarts_and_lost_its_sandbox_between_two_containers_has_failed() {
    let spec = Spec { restart: RestartPolicy::Never, init: vec![container("x")], ..one() };
    let mut stage = Stage::in_sandbox(spec);
    stage.orders();
    stage.exits("x", 0, 0);
    stage.sandbox_lost();
    stage.orders();
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().phase, Phase::Failed);
}

#[test]
fn a_pod_that_never_restarts_gets_another_sandbox_if_nothing_has_run() {
    let mut stage = Stage::in_sandbox(Spec { restart: RestartPolicy::Never, ..one() });
    stage.sandbox_lost();
    stage.orders();
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), [Action::MakeSandbox { attempt: 1 }]);
}

#[test]
fn on_failure_only_those_that_failed_run_again() {
    let both = Spec { restart: RestartPolicy::OnFailure, ..Spec::of(vec![container("a"), container("b")]) };
    let mut stage = Stage::in_sandbox(both);
    stage.orders();
    stage.exits("a", 0, 0);
    stage.runs("b", 0);
    stage.orders();
    stage.sandbox_lost();
    stage.exits("b", 0, 137);
    stage.orders();
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), [Action::MakeSandbox { attempt: 1 }]);
    stage.sandbox(1);
    assert_eq!(started(&stage.orders()), ["b#1"]);
}

#[test]
fn a_pod_with_nothing_left_to_run_gets_no_other_sandbox() {
    let mut stage = lost(Spec { restart: RestartPolicy::OnFailure, ..one() }, 0);
    stage.orders();
    stage.sandbox_stopped(0);
    assert_eq!(stage.orders(), []);
    assert_eq!(stage.status().phase, Phase::Succeeded);
}

#[test]
fn init_containers_run_again_in_a_new_sandbox() {
    let mut stage = Stage::in_sandbox(Spec { init: vec![container("x"), sidecar("s")], ..one() });
    stage.orders();
    stage.exits("x", 0, 0);
    stage.orders();
    stage.runs("s", 0);
    stage.orders();
    stage.runs("a", 0);
    stage.orders();
    stage.sandbox_lost();
    stage.exits("a", 0, 137);
    stage.exits("s", 0, 137);
    stage.orders();
    stage.sandbox_stopped(0);
    stage.orders();
    stage.sandbox(1);
    assert_eq!(started(&stage.orders()), ["x#1"]);
    stage.exits("x", 1, 0);
    assert_eq!(started(&stage.orders()), ["s#1"]);
    stage.runs("s", 1);
    assert_eq!(started(&stage.orders()), ["a#1"]);
}

/// What is ordered for a pod whose sandbox 0 is ready and like this.
fn ordered_for(sandbox: Sandbox, network: Network) -> Vec<Action> {
    let mut stage = Stage::new(Spec { network, ..one() });
    stage.observed.sandboxes.push(sandbox);
    stage.orders()
}

#[test]
fn a_sandbox_must_have_an_address_unless_the_network_is_the_hosts() {
    let sandbox = |network| Sandbox { attempt: 0, ready: true, addressed: false, network };
    assert_eq!(ordered_for(sandbox(Network::Own), Network::Own), [Action::StopSandbox { attempt: 0 }]);
    assert_eq!(started(&ordered_for(sandbox(Network::Host), Network::Host)), ["a#0"]);
}

#[test]
fn a_sandbox_with_another_network_than_the_pods_is_replaced() {
    let sandbox = Sandbox { attempt: 0, ready: true, addressed: true, network: Network::Host };
    assert_eq!(ordered_for(sandbox, Network::Own), [Action::StopSandbox { attempt: 0 }]);
}

#[test]
fn two_ready_sandboxes_are_both_replaced() {
    let mut stage = Stage::in_sandbox(one());
    stage.sandbox(1);
    assert_eq!(stage.orders(), [Action::StopSandbox { attempt: 0 }, Action::StopSandbox { attempt: 1 }]);
}

#[test]
fn an_old_sandbox_is_removed_when_its_last_container_is() {
    let mut stage = lost(one(), 137);
    stage.orders();
    stage.sandbox_stopped(0);
    stage.orders();
    stage.sandbox(1);
    stage.orders();
    stage.runs("a", 1);
    assert_eq!(stage.orders(), []);
    stage.observed.instances.retain(|i| i.sandbox == 1);
    assert_eq!(stage.orders(), [Action::RemoveSandbox { attempt: 0 }]);
}

#[test]
fn the_condition_says_whether_there_is_a_sandbox() {
    let mut stage = Stage::new(one());
    let holds = |stage: &mut Stage| {
        stage.orders();
        let conditions = &stage.status().conditions;
        let found = conditions.iter().find(|c| c.kind == ConditionKind::PodReadyToStartContainers).unwrap();
        (found.status, found.reason, found.message.clone())
    };
    let fails = |message: &str| (ConditionStatus::False, "PodSandboxNotReady", message.to_owned());
    assert_eq!(holds(&mut stage), fails("no pod sandbox exists"));
    stage.sandbox(0);
    assert_eq!(holds(&mut stage), (ConditionStatus::True, "", String::new()));
    stage.sandbox_lost();
    assert_eq!(holds(&mut stage), fails("pod sandbox is not ready"));
}
