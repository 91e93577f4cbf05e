//! Decides between a user namespace of the pod's own, a shared block, and the host's users.

use ids::BlockLength;

use types::{Refusal, keys};

use crate::facts::Facts;
use crate::gate::Gate;
use crate::gates::GateOrigin;
use crate::intent::Intent;
use crate::notes::Notes;
use crate::outcome::{UserNamespaceMode, UserNamespacePlan};
use crate::policy::{Isolate, OnClosedGate, Policy};
use crate::volumes::{Presented, Way};
use crate::warning::Warning;
use crate::{host_programs, safe, userns, volumes};

/// The decision on the pod's user namespace.
#[derive(Debug)]
pub(crate) struct Isolation<'a> {
    pub(crate) mode: UserNamespaceMode,
    pub(crate) length: Option<BlockLength>,
    /// The gate that kept a requested user namespace from the pod.
    pub(crate) closed_gate: Option<Gate>,
    /// How its volumes are presented; empty with the host's user namespace.
    pub(crate) volumes: Vec<Presented<'a>>,
}

const HOST: Isolation<'static> =
    Isolation { mode: UserNamespaceMode::Host, length: None, closed_gate: None, volumes: Vec::new() };

pub(crate) fn isolate<'a>(
    intent: &'a Intent,
    facts: &Facts,
    policy: &Policy,
    notes: &mut Notes,
) -> Isolation<'a> {
    let open = policy.gates.on(Gate::UserNamespacesSupport);
    match intent.host_users {
        Some(false) if open => asked(intent, facts, policy, notes),
        Some(false) => closed(intent, policy, notes),
        Some(true) => {
            notes.reason("user namespace: the host's, because spec.hostUsers is true");
            HOST
        }
        None if open && policy.rules.isolate == Isolate::WhenSafe => when_safe(intent, facts, policy, notes),
        None => {
            notes.reason(format!("user namespace: the host's, because {} is not set", intent.asked_by));
            HOST
        }
    }
}

/// The user namespace of a pod that runs: the one that it has, whatever the gates and the policy are by now.
pub(crate) fn keep<'a>(
    intent: &'a Intent,
    facts: &Facts,
    policy: &Policy,
    running: UserNamespacePlan,
    notes: &mut Notes,
) -> Isolation<'a> {
    match running.length {
        None => {
            let asked = intent.host_users == Some(false);
            if asked {
                let text = "asked for and not isolated: the pod runs with the host's users, and keeps them until it is \
                            created anew";
                notes.warn(Warning::new(&intent.asked_by, text));
            }
            notes.reason("user namespace: the host's, because the running pod has it");
            Isolation { closed_gate: asked.then_some(Gate::UserNamespacesSupport), ..HOST }
        }
        Some(length) => {
            let volumes = volumes::present(intent, facts, policy);
            for refusal in volumes.iter().filter_map(|v| v.how.as_ref().err()) {
                notes.refuse(refusal.clone());
            }
            host_programs::check(intent, &volumes, facts, policy, notes);
            let shared = volumes.iter().find(|v| v.how == Ok(Way::Shared));
            if let Some(presented) = shared.filter(|_| running.mode != UserNamespaceMode::Shared) {
                notes.refuse(Refusal::hinted(
                    &presented.volume.field,
                    "the policy has changed: the volume takes the shared block, and the running pod has its own",
                    "stop the pod, and start it anew",
                ));
            }
            notes.reason(format!(
                "user namespace: the running pod keeps its {} block of {length} IDs",
                if running.mode == UserNamespaceMode::Shared { "shared" } else { "own" }
            ));
            Isolation { mode: running.mode, length: Some(length), closed_gate: None, volumes }
        }
    }
}

fn closed(intent: &Intent, policy: &Policy, notes: &mut Notes) -> Isolation<'static> {
    let gate = Gate::UserNamespacesSupport;
    let way_out = match policy.gates.origin(gate) {
        GateOrigin::Disabled => format!("remove {gate} from policy.disabledFeatures"),
        _ => format!("set {gate}=true"),
    };
    match policy.rules.on_closed_gate {
        OnClosedGate::AsBefore => {
            let text = format!("asked for and not isolated: feature gate {gate} is off");
            notes.warn(Warning::new(&intent.asked_by, text));
            notes.reason(format!("user namespace: the host's, because feature gate {gate} is off"));
        }
        OnClosedGate::Refuse => notes.refuse(Refusal::hinted(
            &intent.asked_by,
            format!("feature gate {gate} is off"),
            format!("{way_out}, or set policy.onClosedGate to asBefore to run such pods without"),
        )),
    }
    Isolation { closed_gate: Some(gate), ..HOST }
}

fn asked<'a>(intent: &'a Intent, facts: &Facts, policy: &Policy, notes: &mut Notes) -> Isolation<'a> {
    check_choice(intent, policy, notes);
    let volumes = volumes::present(intent, facts, policy);
    for refusal in volumes.iter().filter_map(|v| v.how.as_ref().err()) {
        notes.refuse(refusal.clone());
    }
    host_programs::check(intent, &volumes, facts, policy, notes);
    let shared = volumes.iter().find(|v| v.how == Ok(Way::Shared));
    let mode = if shared.is_some() { UserNamespaceMode::Shared } else { UserNamespaceMode::Own };
    let length = match userns::length(intent, facts) {
        Ok(length) => length,
        Err(refusal) => {
            notes.refuse(refusal);
            facts.pool.length
        }
    };
    for refusal in userns::obstacles(intent, facts, policy, length) {
        notes.refuse(refusal);
    }
    match shared {
        None => notes.reason(format!(
            "user namespace: a block of {length} IDs of its own, because {} asks for it",
            intent.asked_by
        )),
        Some(volume) => share(volume, length, facts, notes),
    }
    Isolation { mode, length: Some(length), closed_gate: None, volumes }
}

fn share(volume: &Presented<'_>, length: BlockLength, facts: &Facts, notes: &mut Notes) {
    let name = &volume.volume.name;
    let common = facts.pool.length;
    if length != common {
        notes.refuse(Refusal::hinted(
            format!("metadata.annotations[{}]", keys::IDS),
            format!("volume {name:?} takes the shared block, which has {common} IDs, not {length}"),
            "remove the annotation or the volume",
        ));
    }
    let text = "the pod shares its IDs with all pods that have such a volume";
    notes.warn(Warning::new(&volume.volume.field, text));
    notes.reason(format!(
        "user namespace: the shared block of {common} IDs, because of volume {name}: {}",
        volume.why
    ));
}

fn check_choice(intent: &Intent, policy: &Policy, notes: &mut Notes) {
    let Some(choice) = intent.volume_policy else { return };
    if !policy.rules.volumes.pods_may_choose.contains(&choice) {
        notes.refuse(Refusal::hinted(
            format!("metadata.annotations[{}]", keys::VOLUME_POLICY),
            "the operator of this node does not let pods choose that",
            "remove the annotation, or add it to volumes.podsMayChoose in the node's configuration",
        ));
    }
}

fn when_safe<'a>(intent: &'a Intent, facts: &Facts, policy: &Policy, notes: &mut Notes) -> Isolation<'a> {
    let losses = safe::losses(intent, facts, policy);
    match userns::length(intent, facts) {
        Ok(length) if losses.is_empty() => {
            notes.reason(format!(
                "user namespace: a block of {length} IDs of its own, because hostUsers is unset and the pod loses nothing by it"
            ));
            let volumes = volumes::present(intent, facts, policy);
            host_programs::check(intent, &volumes, facts, policy, notes);
            Isolation { mode: UserNamespaceMode::Own, length: Some(length), closed_gate: None, volumes }
        }
        _ => {
            notes.reason(format!(
                "user namespace: the host's, because the pod does not ask for one and {}",
                losses.join("; ")
            ));
            HOST
        }
    }
}
