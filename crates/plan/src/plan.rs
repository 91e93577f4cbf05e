use types::{MountPropagation, Refusal};

use crate::facts::Facts;
use crate::intent::{Container, Intent, Mount, ProcMount, RecursiveReadOnly};
use crate::isolation::{self, Isolation};
use crate::labelling;
use crate::notes::Notes;
use crate::outcome::{
    Idmap, MountPlan, Namespaces, Owner, Owners, Plan, UserNamespaceMode, UserNamespacePlan, VolumePlan,
};
use crate::policy::Policy;
use crate::selinux::VolumeLabel;
use crate::volume::{Volume, VolumeSource};
use crate::volumes::Way;
use crate::warning::Warning;

/// Plans this intent on such a node under such a policy, or refuses it.
///
/// Isolation that was asked for is either in the plan, or the plan names the operator's closed gate, or there is no
/// plan.
pub fn plan(intent: &Intent, facts: &Facts, policy: &Policy) -> Result<Plan, Vec<Refusal>> {
    let mut notes = Notes::default();
    let isolation = isolation::isolate(intent, facts, policy, &mut notes);
    complete(intent, facts, policy, &isolation, notes)
}

/// Plans a pod that runs in this user namespace, and so keeps it: a gate or a rule that has changed since then is for
/// pods that are created anew.
pub fn plan_running(
    intent: &Intent,
    facts: &Facts,
    policy: &Policy,
    running: UserNamespacePlan,
) -> Result<Plan, Vec<Refusal>> {
    let mut notes = Notes::default();
    let isolation = isolation::keep(intent, facts, policy, running, &mut notes);
    complete(intent, facts, policy, &isolation, notes)
}

fn complete(
    intent: &Intent,
    facts: &Facts,
    policy: &Policy,
    isolation: &Isolation<'_>,
    mut notes: Notes,
) -> Result<Plan, Vec<Refusal>> {
    labelling::check(intent, facts, policy, &mut notes);
    check_containers(intent, isolation, facts, &mut notes);
    warn_of_cost(isolation, &mut notes);
    let volumes = volume_plans(labelling::decide_all(intent, facts, policy, &mut notes), isolation);
    let mounts = mount_plans(intent, isolation, facts, &volumes);
    if !notes.refusals.is_empty() {
        return Err(notes.refusals);
    }
    let owner = |host| if host { Owner::Host } else { Owner::Own };
    Ok(Plan {
        pod: intent.pod.clone(),
        user_namespace: UserNamespacePlan { mode: isolation.mode, length: isolation.length },
        namespaces: Namespaces {
            network: owner(intent.host.network),
            pid: owner(intent.host.pid),
            ipc: owner(intent.host.ipc),
        },
        closed_gate: isolation.closed_gate,
        // The runtime itself finds a pair for a pod without a block.
        lease_categories: isolation.mode != UserNamespaceMode::Host
            && labelling::needs_categories(intent, facts),
        volumes,
        mounts,
        warnings: notes.warnings,
        reasons: notes.reasons,
    })
}

/// Every other way to present a volume takes the same time, however many files it has.
fn warn_of_cost(isolation: &Isolation<'_>, notes: &mut Notes) {
    let isolated = isolation.mode != UserNamespaceMode::Host;
    let shifted = isolation.volumes.iter().filter(|v| isolated && matches!(v.how, Ok(Way::ChownOnce)));
    for presented in shifted {
        let text = "each file is given to the pod's host IDs before the pod starts, and back when it has ended \
                    (policy chownOnce): it takes the longer, the more files there are";
        notes.warn(Warning::new(&presented.volume.field, text));
    }
}

fn check_containers(intent: &Intent, isolation: &Isolation<'_>, facts: &Facts, notes: &mut Notes) {
    let isolated = isolation.mode != UserNamespaceMode::Host;
    for container in &intent.containers {
        let field = &container.field;
        if container.proc_mount == ProcMount::Unmasked && !isolated {
            notes.refuse(Refusal::hinted(
                format!("{field}.securityContext.procMount"),
                "all of /proc is only for pods with a user namespace of their own",
                "set spec.hostUsers to false where the gate UserNamespacesSupport is on, or procMount to Default",
            ));
        }
        if container.privileged && isolated {
            let text = "privileged inside its user namespace only, not on the host";
            notes.warn(Warning::new(format!("{field}.securityContext.privileged"), text));
        }
        for mount in &container.mounts {
            check_mount(mount, intent, facts, notes);
            if mount.propagation == MountPropagation::Bidirectional && isolated {
                let text = "mounts that a pod with a user namespace makes never reach the host";
                notes.warn(Warning::new(format!("{}.mountPropagation", mount.field), text));
            }
        }
    }
}

fn check_mount(mount: &Mount, intent: &Intent, facts: &Facts, notes: &mut Notes) {
    if intent.volume(&mount.volume).is_none() {
        let cause = format!("there is no volume {:?}", mount.volume);
        notes.refuse(Refusal::hinted(
            format!("{}.name", mount.field),
            cause,
            "name one of the pod's volumes",
        ));
    }
    if mount.recursive_read_only == RecursiveReadOnly::Enabled && !rro(intent, facts) {
        notes.refuse(Refusal::hinted(
            format!("{}.recursiveReadOnly", mount.field),
            "the runtime cannot make mounts below a mount read-only",
            "set recursiveReadOnly to IfPossible, or use another runtime",
        ));
    }
}

/// Whether the runtime can make mounts below a read-only mount read-only too.
pub(crate) fn rro(intent: &Intent, facts: &Facts) -> bool {
    facts.runtime.handlers.get(&intent.runtime_handler).is_some_and(|h| h.recursive_read_only_mounts)
}

fn volume_plans(labels: Vec<(&Volume, VolumeLabel)>, isolation: &Isolation<'_>) -> Vec<VolumePlan> {
    let of = |(volume, label): (&Volume, VolumeLabel)| VolumePlan {
        name: volume.name.clone(),
        owners: owners(&volume.name, isolation),
        label,
    };
    labels.into_iter().map(of).collect()
}

fn owners(volume: &str, isolation: &Isolation<'_>) -> Owners {
    match isolation.volumes.iter().find(|v| v.volume.name == volume).map(|v| &v.how) {
        Some(Ok(Way::Idmapped(_))) => Owners::Idmapped,
        Some(Ok(Way::Shared)) => Owners::SharedBlocks,
        Some(Ok(Way::ChownOnce)) => Owners::ChownedOnce,
        Some(Ok(Way::Translated)) => Owners::Translated,
        _ => Owners::AsOnDisk,
    }
}

fn idmap(mode: UserNamespaceMode, owners: Owners) -> Idmap {
    match (mode, owners) {
        (UserNamespaceMode::Host, _) | (_, Owners::AsOnDisk | Owners::ChownedOnce | Owners::Translated) => {
            Idmap::None
        }
        (UserNamespaceMode::Own, Owners::Idmapped) => Idmap::Own,
        (_, Owners::Idmapped | Owners::SharedBlocks) => Idmap::Shared,
    }
}

fn mount_plans(
    intent: &Intent,
    isolation: &Isolation<'_>,
    facts: &Facts,
    volumes: &[VolumePlan],
) -> Vec<MountPlan> {
    let of = |(container, mount): (&Container, &Mount)| {
        let volume = volumes.iter().find(|v| v.name == mount.volume)?;
        let presented = isolation.volumes.iter().find(|v| v.volume.name == mount.volume);
        let owners = presented.map_or("the pod has the host's users", |v| &v.why);
        // The runtime mounts an image, read-only and with nothing below it.
        let source = intent.volume(&mount.volume).map(|v| &v.source);
        let is_image = source == Some(&VolumeSource::Image);
        // wardlet writes these; a pod may not.
        let is_written = matches!(
            source,
            Some(
                VolumeSource::ConfigMap
                    | VolumeSource::Secret
                    | VolumeSource::DownwardApi
                    | VolumeSource::Projected
            )
        );
        Some(MountPlan {
            container: container.name.clone(),
            volume: mount.volume.clone(),
            path: mount.path.clone(),
            idmap: idmap(isolation.mode, volume.owners),
            label: labelling::of_mount(&volume.label, container, intent, facts),
            read_only: mount.read_only || is_image || is_written,
            recursive_read_only: mount.recursive_read_only != RecursiveReadOnly::Disabled
                && !is_image
                && rro(intent, facts),
            propagation: if is_image { MountPropagation::None } else { mount.propagation },
            why: format!("{owners}; {}", volume.label.why),
        })
    };
    intent.mounts().filter_map(of).collect()
}
