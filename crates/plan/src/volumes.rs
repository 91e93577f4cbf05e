//! How volumes are presented to a pod with a user namespace.

use types::Refusal;

use crate::facts::{Facts, Idmappable};
use crate::intent::Intent;
use crate::policy::{CannotIdmap, Policy, VolumeRule};
use crate::volume::Volume;

/// How a volume is presented to a pod with a user namespace, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Presented<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) how: Result<Way, Refusal>,
    pub(crate) why: String,
}

/// A way to present a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Idmapped to the pod's block; `tried` is whether that is known to work.
    Idmapped(Tried),
    /// As it is, to a pod in the shared block.
    Shared,
    /// As it is, with its files given to the pod's block.
    ChownOnce,
    /// As the node makes it: with the pod's host IDs.
    Translated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Works,
    /// It is probed before anything is started.
    NotYet,
}

/// Every volume that is mounted, in the pod's order.
pub(crate) fn present<'a>(intent: &'a Intent, facts: &Facts, policy: &Policy) -> Vec<Presented<'a>> {
    let mounted = |v: &&Volume| intent.mounts().any(|(_, m)| m.volume == v.name);
    intent.volumes.iter().filter(mounted).map(|v| present_one(v, intent, facts, policy)).collect()
}

fn present_one<'a>(volume: &'a Volume, intent: &Intent, facts: &Facts, policy: &Policy) -> Presented<'a> {
    let kind = volume.source.kind();
    let policy = &policy.rules.volumes;
    let filesystem = facts.filesystems.filesystem(volume);
    let (otherwise, cannot) = policy.fallback(intent.volume_policy);
    let (how, why) = match policy.rule_for(&kind, filesystem).unwrap_or(otherwise) {
        VolumeRule::Own => own(volume, facts, cannot),
        VolumeRule::EphemeralOnly if volume.source.is_ephemeral() => own(volume, facts, CannotIdmap::Refuse),
        VolumeRule::SharedBlock => (Ok(Way::Shared), format!("policy sharedBlock for {kind} volumes")),
        VolumeRule::ChownOnce => (Ok(Way::ChownOnce), format!("policy chownOnce for {kind} volumes")),
        VolumeRule::EphemeralOnly => refuse(
            volume,
            format!("policy ephemeralOnly: a pod with a user namespace has no {kind} volume here"),
            "use configMap, secret, downwardAPI, projected or emptyDir volumes only",
        ),
        VolumeRule::Refuse => refuse(
            volume,
            format!("policy refuse: a pod with a user namespace has no {kind} volume here"),
            "change volumes.rules in the node's configuration",
        ),
    };
    Presented { volume, how, why }
}

type Decided = (Result<Way, Refusal>, String);

fn refuse(volume: &Volume, cause: String, hint: &str) -> Decided {
    (Err(Refusal::hinted(&volume.field, cause.clone(), hint)), cause)
}

fn own(volume: &Volume, facts: &Facts, cannot: CannotIdmap) -> Decided {
    let (filesystem, cause) = match facts.filesystems.idmappable(volume) {
        Idmappable::Yes { filesystem } => {
            return (Ok(Way::Idmapped(Tried::Works)), format!("{filesystem} can be idmapped"));
        }
        Idmappable::Unknown { filesystem } => {
            let on = filesystem.as_deref().unwrap_or("a filesystem not known yet");
            let why = format!("{on}: whether it can be idmapped is tried before the pod starts");
            return (Ok(Way::Idmapped(Tried::NotYet)), why);
        }
        // A volume that the node makes for this pod alone can have the pod's host IDs on disk as well.
        Idmappable::No { filesystem, cause } if volume.source.is_ephemeral() => {
            let why = format!("{filesystem} cannot be idmapped ({cause}): made with the pod's host IDs");
            return (Ok(Way::Translated), why);
        }
        Idmappable::No { filesystem, cause } => (filesystem, cause),
    };
    let why = |policy: &str| format!("{filesystem} cannot be idmapped ({cause}): policy {policy}");
    match cannot {
        CannotIdmap::SharedBlock => (Ok(Way::Shared), why("sharedBlock")),
        CannotIdmap::ChownOnce => (Ok(Way::ChownOnce), why("chownOnce")),
        CannotIdmap::Refuse => {
            let cause =
                format!("volume {:?} is on {filesystem}, which cannot be idmapped: {cause}", volume.name);
            let hint = "put it on a filesystem that can (ext4, xfs, btrfs; tmpfs from Linux 6.3), or set the policy sharedBlock or chownOnce for it";
            (Err(Refusal::hinted(&volume.field, cause, hint)), why("refuse"))
        }
    }
}
