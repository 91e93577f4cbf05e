//! Programs that an isolated pod could leave on the host.
//!
//! A path of the host that is idmapped to the pod's block shows the pod's root as the host's root on disk. A program
//! that the pod leaves there with the set-user-ID or set-group-ID bit, or with file capabilities, has that power on the
//! host: flags of the pod's own mount do not change what the host's mount allows. Only a host mount that is `nosuid`
//! does.

use types::Refusal;

use crate::facts::Facts;
use crate::intent::{Intent, Mount, RecursiveReadOnly};
use crate::notes::Notes;
use crate::policy::{HostSetuid, Policy};
use crate::volumes::{Presented, Way};
use crate::warning::Warning;

/// Warns of every volume through which the pod could leave such a program, or refuses the pod, as the policy says.
pub(crate) fn check(
    intent: &Intent,
    volumes: &[Presented<'_>],
    facts: &Facts,
    policy: &Policy,
    notes: &mut Notes,
) {
    let idmapped = volumes.iter().filter(|presented| matches!(presented.how, Ok(Way::Idmapped(_))));
    for Presented { volume, .. } in idmapped {
        let Some(path) = volume.source.host_path() else { continue };
        let reach = facts.filesystems.setuid(path);
        let is_closed = |mount: &Mount| {
            mount.recursive_read_only != RecursiveReadOnly::Disabled && crate::plan::rro(intent, facts)
        };
        let can_leave = |mount: &Mount| match mount.read_only {
            true => reach.below && !is_closed(mount),
            false => reach.any(),
        };
        if !intent.mounts().any(|(_, mount)| mount.volume == volume.name && can_leave(mount)) {
            continue;
        }
        let cause = format!(
            "a program that the pod leaves in {path} with the set-user-ID or set-group-ID bit or with file capabilities \
             has the rights of its owner on the host, also root's: the host's mount of it is not nosuid"
        );
        match policy.rules.volumes.host_setuid {
            HostSetuid::Warn => notes.warn(Warning::new(&volume.field, cause)),
            HostSetuid::Refuse => {
                let hint = "mount it nosuid on the host, mount the volume read-only with all below it, or set \
                            policy.volumes.hostSetuid to warn";
                notes.refuse(Refusal::hinted(&volume.field, cause, hint));
            }
        }
    }
}
