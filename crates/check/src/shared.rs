//! The volumes that something is to be said of, with their users.

use std::collections::{BTreeMap, BTreeSet};

use conflicts::{AccessMode, Engine, Node, VolumeId};
use inventory::{ClusterSnapshot, VolumeFacts};
use plan::{Gate, Gates};

use crate::report::{BeforeAfter, ObjectRef, User, Volume};

/// The feature gates before and after the upgrade.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpgradeGates<'a> {
    pub(crate) before: &'a Gates,
    pub(crate) after: &'a Gates,
}

/// Those that more than one workload uses and those among `reported`.
pub(crate) fn volumes(
    engine: &Engine,
    snapshot: &ClusterSnapshot,
    gates: UpgradeGates<'_>,
    reported: &BTreeSet<String>,
) -> Vec<Volume> {
    let mut volumes = Vec::new();
    for (id, facts) in &snapshot.facts {
        let users = users(engine, snapshot, id);
        let is_shared = users.iter().map(|user| &user.workload).collect::<BTreeSet<_>>().len() > 1;
        if !is_shared && !reported.contains(id.as_str()) {
            continue;
        }
        let is_labelled = users.iter().any(|user| user.policy == "MountOption");
        let mounted = |gates: &Gates| is_labelled && is_eligible(gates, facts);
        volumes.push(Volume {
            id: id.to_string(),
            persistent_volume: facts.persistent_volume.clone(),
            claim: facts.claim.clone(),
            driver: facts.driver.clone(),
            access_modes: facts.access_modes.iter().map(|mode| mode.name().to_owned()).collect(),
            mounted_with_context: BeforeAfter { before: mounted(gates.before), after: mounted(gates.after) },
            users,
        });
    }
    volumes
}

/// Whether the gates let a volume with such access modes be mounted with a context.
pub(crate) fn is_eligible(gates: &Gates, facts: &VolumeFacts) -> bool {
    let is_one_pods = facts.access_modes == [AccessMode::ReadWriteOncePod];
    gates.on(Gate::SelinuxMount) || (gates.on(Gate::SelinuxMountReadWriteOncePod) && is_one_pods)
}

fn users(engine: &Engine, snapshot: &ClusterSnapshot, id: &VolumeId) -> Vec<User> {
    let mut users: BTreeMap<(ObjectRef, String, String), (BTreeSet<String>, u64)> = BTreeMap::new();
    for group in engine.users(id) {
        let policy = group.ask.policy().to_string();
        for equivalent in group.pods().filter_map(|pod| snapshot.equivalents.get(pod)) {
            let key = (equivalent.workload.clone(), group.ask.label().to_string(), policy.clone());
            let (nodes, pods) = users.entry(key).or_default();
            *pods += equivalent.count;
            if let Node::Bound(name) | Node::Pinned(name) = &equivalent.pod.placement.node {
                nodes.insert(name.clone());
            }
        }
    }
    let user = |((workload, label, policy), (nodes, pods)): (
        (ObjectRef, String, String),
        (BTreeSet<String>, u64),
    )| { User { workload, label, policy, nodes: nodes.into_iter().collect(), pods } };
    users.into_iter().map(user).collect()
}
