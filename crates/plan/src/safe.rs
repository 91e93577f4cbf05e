//! What a pod with `hostUsers` unset would lose in a user namespace of its own.

use types::MountPropagation;

use crate::facts::Facts;
use crate::intent::{Container, Intent};
use crate::policy::Policy;
use crate::userns;
use crate::volume::VolumeSource;
use crate::volumes::{self, Tried, Way};

/// Capabilities that have their full effect inside a user namespace. All others are, in part or as a whole, checked
/// against the host's user namespace.
const REAL_INSIDE: [&str; 15] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// What the pod would lose; nothing if it is safe.
pub(crate) fn losses(intent: &Intent, facts: &Facts, policy: &Policy) -> Vec<String> {
    let mut found: Vec<String> = intent.containers.iter().flat_map(container).collect();
    if intent.host.network {
        found.push("it has the host's network, which it could no longer configure".into());
    }
    found.extend(volumes(intent, facts, policy));
    match userns::length(intent, facts) {
        Err(refusal) => found.push(refusal.to_string()),
        Ok(length) => {
            found.extend(userns::obstacles(intent, facts, policy, length).iter().map(ToString::to_string));
        }
    }
    found
}

fn container(container: &Container) -> Vec<String> {
    let mut found = Vec::new();
    let name = &container.name;
    if container.privileged {
        found.push(format!("container {name} is privileged"));
    }
    let plain = |c: &String| c.strip_prefix("CAP_").unwrap_or(c).to_owned();
    let host_only =
        container.capabilities.add.iter().map(plain).filter(|c| !REAL_INSIDE.contains(&c.as_str()));
    let host_only: Vec<String> = host_only.collect();
    if !host_only.is_empty() {
        let list = host_only.join(", ");
        found.push(format!("container {name} has {list}, worth less in a user namespace"));
    }
    if container.mounts.iter().any(|m| m.propagation == MountPropagation::Bidirectional) {
        found.push(format!("container {name} makes mounts for the host"));
    }
    found
}

fn volumes(intent: &Intent, facts: &Facts, policy: &Policy) -> Vec<String> {
    let mut found = Vec::new();
    for presented in volumes::present(intent, facts, policy) {
        let name = &presented.volume.name;
        if matches!(presented.volume.source, VolumeSource::HostPath { .. }) {
            found.push(format!("volume {name} is a path of the host, whose owners it would no longer be"));
        } else if !matches!(presented.how, Ok(Way::Idmapped(Tried::Works) | Way::Translated)) {
            found.push(format!("volume {name}: {}", presented.why));
        }
    }
    found
}
