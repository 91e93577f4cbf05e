//! hostUsers true, false and unset under every combination of gates.

use crate::fixture;

use fixture::{facts, gates, only_refusal, pod, rules};
use plan::{
    Gate, GateError, HostNamespaces, Isolate, OnClosedGate, Plan, Policy, Refusal, UserNamespaceMode, plan,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Own,
    Host,
    /// The host's, asked for otherwise, and said so.
    HostBecauseOfTheGate,
    Refused(&'static str),
}
use Outcome::{Host, HostBecauseOfTheGate, Own, Refused};

const CLOSED: Outcome = Refused("spec.hostUsers: feature gate UserNamespacesSupport is off");
const NETWORK: Outcome = Refused(
    "spec.hostNetwork: the host's network and a user namespace exclude each other: feature gate UserNamespacesHostNetworkSupport is off",
);

/// hostUsers, hostNetwork, and what comes of it under UserNamespacesSupport and
/// UserNamespacesHostNetworkSupport: both on; only the first on; both off; both off and
/// `onClosedGate: refuse`.
const TABLE: [(Option<bool>, bool, [Outcome; 4]); 6] = [
    (Some(true), false, [Host, Host, Host, Host]),
    (Some(true), true, [Host, Host, Host, Host]),
    (Some(false), false, [Own, Own, HostBecauseOfTheGate, CLOSED]),
    (Some(false), true, [Own, NETWORK, HostBecauseOfTheGate, CLOSED]),
    (None, false, [Host, Host, Host, Host]),
    (None, true, [Host, Host, Host, Host]),
];

fn outcome(result: Result<Plan, Vec<Refusal>>, expected: Outcome) -> Outcome {
    match (result, expected) {
        (Err(refusals), Refused(text)) => {
            let refusal = only_refusal(Err(refusals));
            assert_eq!(refusal.to_string(), text);
            expected
        }
        (Err(refusals), _) => panic!("{refusals:?}"),
        (Ok(plan), _) => match (plan.user_namespace.mode, plan.closed_gate) {
            (UserNamespaceMode::Own, None) => Own,
            (UserNamespaceMode::Host, None) => Host,
            (UserNamespaceMode::Host, Some(Gate::UserNamespacesSupport)) => {
                let text =
                    "spec.hostUsers: asked for and not isolated: feature gate UserNamespacesSupport is off";
                assert!(plan.warnings.iter().any(|w| w.to_string() == text), "{:?}", plan.warnings);
                HostBecauseOfTheGate
            }
            other => panic!("{other:?}"),
        },
    }
}

/// All 32 combinations of the five gates, each set by hand: the ones that can be, with their
/// number in the table's columns, and those that are refused at start.
fn combinations() -> Vec<(String, Result<usize, Vec<GateError>>, Policy)> {
    (0..32_u32)
        .map(|bits| {
            let on = |i: u32| bits >> i & 1 == 1;
            let setting = |(gate, i): (Gate, u32)| format!("{gate}={}", on(i));
            let text: Vec<String> = Gate::ALL.into_iter().zip(0..).map(setting).collect();
            let column = match (on(0), on(1)) {
                (true, true) => 0,
                (true, false) => 1,
                (false, _) => 2,
            };
            let text = text.join(",");
            match gates(&text) {
                Ok(gates) => (text, Ok(column), Policy { gates, ..Policy::default() }),
                Err(errors) => (text, Err(errors), Policy::default()),
            }
        })
        .collect()
}

#[test]
fn every_value_under_every_combination_of_gates_has_its_outcome() {
    for (text, column, mut policy) in combinations() {
        let Ok(column) = column else { continue };
        for (host_users, network, outcomes) in TABLE {
            let mut pod = pod(host_users);
            pod.host = HostNamespaces { network, ..HostNamespaces::default() };
            policy.rules.on_closed_gate = OnClosedGate::AsBefore;
            let found = outcome(plan(&pod, &facts(), &policy), outcomes[column]);
            assert_eq!(found, outcomes[column], "{host_users:?} {network} {text}");
            policy.rules.on_closed_gate = OnClosedGate::Refuse;
            let expected = if column == 2 { outcomes[3] } else { outcomes[column] };
            let found = outcome(plan(&pod, &facts(), &policy), expected);
            assert_eq!(found, expected, "{host_users:?} {network} {text}, refusing");
        }
    }
}

#[test]
fn combinations_with_a_prerequisite_missing_are_refused_at_start_naming_both() {
    let refused: Vec<_> =
        combinations().into_iter().filter_map(|(t, c, _)| c.err().map(|e| (t, e))).collect();
    // Two gates of users: 3 of 4 can be. Three of SELinux: 4 of 8 can be.
    assert_eq!(refused.len(), 32 - 3 * 4);
    for (text, errors) in refused {
        for error in errors {
            let GateError::Prerequisite { gate, prerequisite } = &error else { panic!("{error:?}") };
            assert!(
                text.contains(&format!("{gate}=true")) && text.contains(&format!("{prerequisite}=false"))
            );
            let said = error.to_string();
            assert!(said.contains(gate.name()) && said.contains(prerequisite.name()));
        }
    }
}

#[test]
fn an_unset_value_is_isolated_when_safe_and_the_gate_is_open() {
    let mut policy = rules(|r| r.isolate = Isolate::WhenSafe);
    let planned = plan(&pod(None), &facts(), &policy).unwrap();
    assert_eq!(planned.user_namespace.mode, UserNamespaceMode::Own);
    policy.gates = gates("UserNamespacesSupport=false").unwrap();
    let planned = plan(&pod(None), &facts(), &policy).unwrap();
    assert_eq!((planned.user_namespace.mode, planned.closed_gate), (UserNamespaceMode::Host, None));
    assert!(planned.warnings.is_empty());
}
