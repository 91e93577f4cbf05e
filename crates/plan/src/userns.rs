//! Whether a pod can have a user namespace of its own, and what prevents it.

use ids::{BlockLength, ContainerId};

use types::{Refusal, keys};

use crate::facts::{Facts, Support};
use crate::gate::Gate;
use crate::intent::Intent;
use crate::policy::Policy;

/// How many IDs the pod gets: the node's block length times a power of two, because only such blocks can be leased.
pub(crate) fn length(intent: &Intent, facts: &Facts) -> Result<BlockLength, Refusal> {
    let pool = &facts.pool;
    let Some(asked) = intent.ids else { return Ok(pool.length) };
    let field = format!("metadata.annotations[{}]", keys::IDS);
    let allowed = pool.allowed.unwrap_or(pool.length);
    if asked > u64::from(allowed) {
        return Err(Refusal::hinted(
            field,
            format!(
                "{asked} IDs are more than this node gives to one pod, {allowed} (userNamespaces.maxIdsPerPod)"
            ),
            format!(
                "ask for at most {allowed}, or raise userNamespaces.maxIdsPerPod in the node's configuration"
            ),
        ));
    }
    let lengths = (0..32).map_while(|order| pool.length.doubled(order)).filter(|l| *l <= pool.longest);
    let fits = lengths.clone().find(|l| u64::from(*l) >= asked);
    match fits {
        Some(length) if u64::from(length) == asked => Ok(length),
        Some(length) => Err(Refusal::hinted(
            field,
            format!(
                "{asked} IDs cannot be leased: it takes {} or that doubled, once or more often",
                pool.length
            ),
            format!("ask for {length}"),
        )),
        None => Err(Refusal::hinted(
            field,
            format!("{asked} IDs are more than the pool can give in one block ({})", pool.origin),
            format!("ask for at most {}", lengths.last().unwrap_or(pool.length)),
        )),
    }
}

/// Everything except volumes that prevents a user namespace with this many IDs.
pub(crate) fn obstacles(
    intent: &Intent,
    facts: &Facts,
    policy: &Policy,
    length: BlockLength,
) -> Vec<Refusal> {
    let mut found = host_namespaces(intent, facts, policy);
    found.extend(devices(intent));
    found.extend(handler(intent, facts));
    found.extend(kernel(intent, facts));
    found.extend(unmapped_ids(intent, length));
    found
}

fn host_namespaces(intent: &Intent, facts: &Facts, policy: &Policy) -> Vec<Refusal> {
    let with = |what: &str| format!("a pod with a user namespace of its own cannot have the host's {what}");
    let hint =
        |field: &str| format!("remove {field}, or {} if the pod must have it", host_users_true(intent));
    let mut found = Vec::new();
    if intent.host.network {
        found.extend(host_network(facts, policy).map(|(cause, way_out)| {
            let hint = way_out.unwrap_or_else(|| hint("spec.hostNetwork"));
            Refusal::hinted("spec.hostNetwork", cause.unwrap_or_else(|| with("network")), hint)
        }));
    }
    if intent.host.pid {
        found.push(Refusal::hinted("spec.hostPID", with("processes"), hint("spec.hostPID")));
    }
    if intent.host.ipc {
        found.push(Refusal::hinted("spec.hostIPC", with("IPC"), hint("spec.hostIPC")));
    }
    found
}

/// What prevents the host's network for a pod with a user namespace: cause and hint, where they are special.
fn host_network(facts: &Facts, policy: &Policy) -> Option<(Option<String>, Option<String>)> {
    let gate = Gate::UserNamespacesHostNetworkSupport;
    if !policy.gates.on(gate) {
        let cause =
            format!("the host's network and a user namespace exclude each other: feature gate {gate} is off");
        return Some((Some(cause), None));
    }
    if facts.runtime.user_namespaces_host_network {
        return None;
    }
    let cause = "the container runtime cannot give a user namespace to a pod with the host's network";
    Some((Some(cause.into()), Some("remove spec.hostNetwork, or use a runtime that says it can".into())))
}

fn host_users_true(intent: &Intent) -> String {
    if intent.asked_by == "spec.hostUsers" {
        "set spec.hostUsers to true".into()
    } else {
        format!("remove {}", intent.asked_by)
    }
}

fn devices(intent: &Intent) -> impl Iterator<Item = Refusal> {
    intent.containers.iter().filter(|c| !c.devices.is_empty()).map(|c| {
        Refusal::hinted(
            format!("{}.volumeDevices", c.field),
            "a block device cannot be idmapped, so a pod with a user namespace cannot have one",
            format!("mount the volume as a filesystem, or {}", host_users_true(intent)),
        )
    })
}

fn handler(intent: &Intent, facts: &Facts) -> Option<Refusal> {
    let name = &intent.runtime_handler;
    let cause = match facts.runtime.handlers.get(name) {
        Some(handler) if handler.user_namespaces => return None,
        _ if facts.runtime.handlers.is_empty() => {
            "the container runtime is too old to say that it supports user namespaces".to_owned()
        }
        Some(_) if name.is_empty() => "the container runtime does not support user namespaces".to_owned(),
        Some(_) => format!("the runtime handler {name:?} does not support user namespaces"),
        None => format!("the container runtime has no handler {name:?}"),
    };
    Some(Refusal::hinted(
        &intent.asked_by,
        cause,
        "use the built-in runtime, containerd 2.0 or CRI-O 1.30 or later",
    ))
}

fn kernel(intent: &Intent, facts: &Facts) -> Vec<Refusal> {
    let refuse = |cause: String, hint: &str| Refusal::hinted(&intent.asked_by, cause, hint);
    let mut found = Vec::new();
    if let Support::No(cause) = &facts.kernel.user_namespaces {
        found.push(refuse(
            format!("the kernel gives no user namespace: {cause}"),
            "look at user.max_user_namespaces, and at what the security modules of the host forbid",
        ));
    } else if facts.kernel.max_user_namespaces == 0 {
        let cause = "user.max_user_namespaces is 0: the host allows none".to_owned();
        found.push(refuse(cause, "sysctl -w user.max_user_namespaces=65536"));
    }
    if let Support::No(cause) = &facts.kernel.idmapped_mounts {
        found.push(refuse(
            format!("the kernel cannot idmap a mount: {cause}"),
            "it takes Linux 5.19 or later",
        ));
    }
    if facts.pool.blocks == 0 {
        found.push(refuse(
            format!("the pool has no block to lease ({})", facts.pool.origin),
            "run wardlet ids list",
        ));
    }
    found
}

/// IDs that the pod names and that its user namespace would not have.
fn unmapped_ids(intent: &Intent, length: BlockLength) -> Vec<Refusal> {
    let beyond = |field: String, id: Option<ContainerId>| {
        let id = id.filter(|id| id.get() >= length.get())?;
        let cause =
            format!("{id} is not in the pod's user namespace, which has the IDs 0 to {}", length.get() - 1);
        Some(Refusal::hinted(
            field,
            cause,
            format!("use a lower ID, or ask for more by the annotation {}", keys::IDS),
        ))
    };
    let containers = intent.containers.iter().flat_map(|c| {
        [
            beyond(format!("{}.securityContext.runAsUser", c.field), c.run_as_user),
            beyond(format!("{}.securityContext.runAsGroup", c.field), c.run_as_group),
        ]
    });
    let group = |(i, id): (usize, &ContainerId)| {
        beyond(format!("spec.securityContext.supplementalGroups[{i}]"), Some(*id))
    };
    let groups = intent.supplemental_groups.iter().enumerate().map(group);
    let fs_group = beyond("spec.securityContext.fsGroup".into(), intent.fs_group);
    containers.chain(groups).chain([fs_group]).flatten().collect()
}
