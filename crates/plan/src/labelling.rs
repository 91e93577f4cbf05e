//! The labels of a pod's volumes: collected from its containers, then decided by the table.

use selinux::{Label, SelinuxOptions, effective};

use types::Refusal;

use crate::facts::Facts;
use crate::gate::Gate;
use crate::intent::{Container, Intent};
use crate::notes::Notes;
use crate::outcome::{HowLabelled, LabelPlan};
use crate::policy::{OnClosedGate, Policy};
use crate::selinux::{Case, Enabled, Labelling, VolumeLabel, decide};
use crate::volume::Volume;
use crate::warning::Warning;

fn options<'a>(intent: &'a Intent, container: &'a Container) -> Option<&'a SelinuxOptions> {
    effective(intent.selinux.as_ref(), container.selinux.as_ref()).filter(|o| !o.is_empty())
}

/// Options that say nothing take the pod's away, and ask for the empty label.
fn has_empty_options(intent: &Intent, container: &Container) -> bool {
    effective(intent.selinux.as_ref(), container.selinux.as_ref()).is_some_and(SelinuxOptions::is_empty)
}

/// The file label of a container, `None` where it has none that is known beforehand: without a level, or privileged,
/// when the runtime chooses it.
fn file_label(intent: &Intent, container: &Container, facts: &Facts) -> Result<Option<Label>, Refusal> {
    let (Some(options), Some(defaults)) = (options(intent, container), &facts.selinux.defaults) else {
        return Ok(None);
    };
    if container.privileged {
        return Ok(None);
    }
    let field = match container.selinux {
        Some(_) => format!("{}.securityContext.seLinuxOptions", container.field),
        None => "spec.securityContext.seLinuxOptions".to_owned(),
    };
    let refuse =
        |e: selinux::LabelError| Refusal::hinted(field, e.to_string(), "write the level as s0:c1,c2");
    defaults.volume_label(options).map_err(refuse)
}

/// Reports what keeps labels from being known at all, once for the pod.
pub(crate) fn check(intent: &Intent, facts: &Facts, policy: &Policy, notes: &mut Notes) {
    if !facts.selinux.enabled() {
        return;
    }
    for container in &intent.containers {
        if let Err(refusal) = file_label(intent, container, facts) {
            notes.refuse(refusal);
        }
    }
    let asked = intent.containers.iter().any(|c| options(intent, c).is_some());
    if asked && facts.selinux.defaults.is_none() {
        let text = "this node has no contexts file, so that no label for volumes can be known";
        notes.warn(Warning::new("spec.securityContext.seLinuxOptions", text));
    }
    closed_change_policy(intent, policy, notes);
    ignored_options(intent, notes);
}

fn closed_change_policy(intent: &Intent, policy: &Policy, notes: &mut Notes) {
    let gate = Gate::SelinuxChangePolicy;
    if intent.change_policy.is_none() || policy.gates.on(gate) {
        return;
    }
    let field = "spec.securityContext.seLinuxChangePolicy";
    let cause = format!("feature gate {gate} is off");
    match policy.rules.on_closed_gate {
        OnClosedGate::AsBefore => notes.warn(Warning::new(field, format!("ignored: {cause}"))),
        OnClosedGate::Refuse => {
            notes.refuse(Refusal::hinted(field, cause, format!("remove it, or set {gate}=true")))
        }
    }
}

fn ignored_options(intent: &Intent, notes: &mut Notes) {
    for container in intent.containers.iter().filter(|c| c.privileged && options(intent, c).is_some()) {
        let text = "a privileged container runs unconfined: its SELinux options give its volumes no label";
        notes.warn(Warning::new(format!("{}.securityContext.privileged", container.field), text));
    }
}

/// The decision for every volume that is mounted, in the pod's order.
pub(crate) fn decide_all<'a>(
    intent: &'a Intent,
    facts: &Facts,
    policy: &Policy,
    notes: &mut Notes,
) -> Vec<(&'a Volume, VolumeLabel)> {
    let mut decided = Vec::new();
    for volume in &intent.volumes {
        let mounting: Vec<_> = intent.mounts().filter(|(_, m)| m.volume == volume.name).collect();
        if mounting.is_empty() {
            continue;
        }
        let labels: Vec<_> =
            mounting.iter().filter_map(|(c, _)| file_label(intent, c, facts).ok().flatten()).collect();
        let label = decide(&Case {
            selinux: if facts.selinux.enabled() { Enabled::Yes } else { Enabled::No },
            gates: &policy.gates,
            pod_policy: intent.change_policy,
            node_policy: policy.rules.default_change_policy,
            volume: &volume.source,
            labels: labels.clone(),
            empty_options: mounting.iter().any(|(c, _)| !c.privileged && has_empty_options(intent, c)),
        });
        report(volume, &label, &labels, notes);
        decided.push((volume, label));
    }
    decided
}

/// Reports a volume that would need several labels at once, or gets them in turn.
fn report(volume: &Volume, label: &VolumeLabel, labels: &[Label], notes: &mut Notes) {
    let several = labels.iter().any(|l| Some(l) != labels.first());
    if label.how == Labelling::Relabel && several {
        let text = "its containers relabel it in turn: the last to start takes it from the others";
        notes.warn(Warning::new(&volume.field, text));
    }
    if let Labelling::Impossible(labels) = &label.how {
        let mut list: Vec<String> = labels.iter().map(ToString::to_string).collect();
        if list.len() == 1 {
            list.push("none (empty seLinuxOptions)".to_owned());
        }
        notes.refuse(Refusal::hinted(
            &volume.field,
            format!(
                "its containers need volume {:?} with different labels: {}",
                volume.name,
                list.join(" and ")
            ),
            "give the containers one level, or a volume each: no change policy starts such a pod",
        ));
    }
}

/// What one container's mount of a volume gets.
pub(crate) fn of_mount(
    volume: &VolumeLabel,
    container: &Container,
    intent: &Intent,
    facts: &Facts,
) -> LabelPlan {
    match &volume.how {
        Labelling::Mount(label) => LabelPlan { how: HowLabelled::Mount, context: Some(label.clone()) },
        // The runtime leaves the files of privileged containers alone: they reach every label.
        Labelling::Relabel if !container.privileged => LabelPlan {
            how: HowLabelled::Relabel,
            context: file_label(intent, container, facts).ok().flatten(),
        },
        _ => LabelPlan { how: HowLabelled::None, context: None },
    }
}

/// Whether a pair of categories has to be leased for containers that name no level.
pub(crate) fn needs_categories(intent: &Intent, facts: &Facts) -> bool {
    let level = |c: &Container| options(intent, c).and_then(SelinuxOptions::level).is_some();
    facts.selinux.enabled() && intent.containers.iter().any(|c| !c.privileged && !level(c))
}
