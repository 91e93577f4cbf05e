//! The namespaces of a container, and the settings of its sandbox's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bundle::{IdLines, Space, Spaces};
use wire::cri::{NamespaceMode, NamespaceOption, PodSandboxConfig};

use super::{Asked, CgroupVersion, Refusal, ping};

const FIELD: &str = "linux.security_context.namespace_options";
const SYSCTLS: &str = "linux.sysctls";

/// Settings that are an IPC namespace's own.
const OF_IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

pub(super) fn of(asked: &Asked<'_>, ids: Option<&IdLines>) -> Result<Spaces, Refusal> {
    let place = asked.place;
    let sandbox = asked.sandbox_options().cloned().unwrap_or_default();
    // Who says nothing is in whatever the sandbox has.
    let own = asked.options().cloned().unwrap_or_else(|| sandbox.clone());
    let shared = [("network", own.network, sandbox.network), ("ipc", own.ipc, sandbox.ipc)];
    for (kind, own, sandbox) in shared {
        as_the_sandbox(kind, own, sandbox)?;
    }
    if ids.is_some() {
        not_with_users(&sandbox)?;
    }
    let cgroup = match asked.node.cgroups {
        CgroupVersion::V2 if !asked.security().privileged => Space::New,
        _ => Space::Host,
    };
    Ok(Spaces {
        user: at(place.user.as_deref()),
        network: at(place.network.as_deref()),
        ipc: at(place.ipc.as_deref()),
        uts: at(place.uts.as_deref()),
        pid: pid(asked, &own, &sandbox)?,
        cgroup,
    })
}

fn at(pin: Option<&Path>) -> Space {
    pin.map_or(Space::Host, |pin| Space::At(PathBuf::from(pin)))
}

/// `POD` is whatever the sandbox has; the host's is only for whom the sandbox has it, too.
fn as_the_sandbox(kind: &str, own: i32, sandbox: i32) -> Result<(), Refusal> {
    let refused = |cause: String| Err(Refusal::new(format!("{FIELD}.{kind}"), cause));
    match NamespaceMode::try_from(own) {
        Ok(NamespaceMode::Pod) => Ok(()),
        Ok(NamespaceMode::Node) if sandbox == i32::from(NamespaceMode::Node) => Ok(()),
        Ok(NamespaceMode::Node) => refused("NODE: the sandbox is not in the host's".to_owned()),
        Ok(other) => refused(format!("{}: a container shares its sandbox's", other.as_str_name())),
        Err(_) => refused(format!("{own} is no mode")),
    }
}

/// The host's processes and IPC are not the pod's to see; its network is (KEP-5607).
pub(super) fn not_with_users(sandbox: &NamespaceOption) -> Result<(), Refusal> {
    for (kind, mode) in [("pid", sandbox.pid), ("ipc", sandbox.ipc)] {
        if mode == i32::from(NamespaceMode::Node) {
            let cause = "NODE cannot go with a user namespace of the pod's own";
            return Err(Refusal::new(format!("{FIELD}.{kind}"), cause)
                .with_hint("take the host's user namespace (hostUsers: true), or the pod's own"));
        }
    }
    Ok(())
}

fn pid(asked: &Asked<'_>, own: &NamespaceOption, sandbox: &NamespaceOption) -> Result<Space, Refusal> {
    let refused = |cause: &str| Err(Refusal::new(format!("{FIELD}.pid"), cause));
    let host = NamespaceMode::Node;
    match NamespaceMode::try_from(own.pid) {
        Ok(NamespaceMode::Container) => Ok(Space::New),
        Ok(NamespaceMode::Pod) if sandbox.pid == i32::from(host) => Ok(Space::Host),
        Ok(NamespaceMode::Pod) => match &asked.place.pid {
            Some(pin) => Ok(Space::At(pin.clone())),
            // A sandbox that shares none: only whoever insists on it is refused.
            None if asked.options().is_none() => Ok(Space::New),
            None => refused("POD: the sandbox shares no processes"),
        },
        Ok(NamespaceMode::Node) if sandbox.pid == i32::from(host) => Ok(Space::Host),
        Ok(NamespaceMode::Node) => refused("NODE: the sandbox is not in the host's"),
        Ok(NamespaceMode::Target) => match asked.target {
            Some(target) => Ok(Space::At(target.to_owned())),
            None => {
                let cause = format!("there is no running container {:?} in this sandbox", own.target_id);
                Err(Refusal::new(format!("{FIELD}.target_id"), cause))
            }
        },
        Err(_) => refused("is no mode"),
    }
}

/// The settings of a sandbox's namespaces: those it asks for, and ours.
///
/// # Errors
/// With the setting that is not of a namespace of the sandbox's own.
pub fn sysctls(
    sandbox: &PodSandboxConfig,
    ids: Option<&IdLines>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let linux = sandbox.linux.clone().unwrap_or_default();
    let options = linux.security_context.and_then(|security| security.namespace_options).unwrap_or_default();
    let host = |mode: i32| mode == i32::from(NamespaceMode::Node);
    let (network, ipc) = (!host(options.network), !host(options.ipc));
    for (name, value) in &linux.sysctls {
        let dotted = name.replace('/', ".");
        let refused = |cause: &str| Err(Refusal::new(format!("{SYSCTLS}[{name}]"), cause));
        if dotted.split('.').any(str::is_empty) || value.contains(['\0', '\n']) {
            return refused("is no setting of the kernel's");
        }
        let of_ipc = OF_IPC.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
        match (dotted.starts_with("net."), of_ipc) {
            (true, _) if !network => return refused("is the host's: the pod is in its network"),
            (_, true) if !ipc => return refused("is the host's: the pod is in its IPC"),
            (false, false) => return refused("is of no namespace: it would be set for the whole host"),
            _ => {}
        }
    }
    if !network {
        return Ok(linux.sysctls);
    }
    let mut settings = bundle::sysctl::for_pod(&linux.sysctls, ids);
    if let Some(ids) = ids {
        ping::as_the_host_knows(&mut settings, ids, &linux.sysctls)?;
    }
    Ok(settings)
}
