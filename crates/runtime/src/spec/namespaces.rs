//! The namespaces of a container, and the settings of its sandbox's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use container::{NamespaceSpec, NamespaceSpecs};

use cri::{NamespaceMode, NamespaceOption, PodSandboxConfig};
use ids::IdMappings;
use types::Refusal;

use super::{CgroupVersion, ContainerRequest, ping};

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

pub(super) fn of(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<NamespaceSpecs, Refusal> {
    let place = asked.place;
    let sandbox = asked.sandbox_options().cloned().unwrap_or_default();
    // Without options the container joins the namespaces of the sandbox.
    let own = asked.options().cloned().unwrap_or_else(|| sandbox.clone());
    let shared = [("network", own.network, sandbox.network), ("ipc", own.ipc, sandbox.ipc)];
    for (kind, own, sandbox) in shared {
        as_the_sandbox(kind, own, sandbox)?;
    }
    if ids.is_some() {
        not_with_users(&sandbox)?;
    }
    let cgroup = match asked.node.cgroups {
        CgroupVersion::V2 if !asked.security().privileged => NamespaceSpec::New,
        _ => NamespaceSpec::Host,
    };
    Ok(NamespaceSpecs {
        user: at(place.user.as_deref()),
        network: at(place.network.as_deref()),
        ipc: at(place.ipc.as_deref()),
        uts: at(place.uts.as_deref()),
        pid: pid(asked, &own, &sandbox)?,
        cgroup,
    })
}

fn at(pin: Option<&Path>) -> NamespaceSpec {
    pin.map_or(NamespaceSpec::Host, |pin| NamespaceSpec::At(PathBuf::from(pin)))
}

/// `POD` is the sandbox's mode; `NODE` is allowed only if the sandbox has it, too.
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

fn pid(
    asked: &ContainerRequest<'_>,
    own: &NamespaceOption,
    sandbox: &NamespaceOption,
) -> Result<NamespaceSpec, Refusal> {
    let refused = |cause: &str| Err(Refusal::new(format!("{FIELD}.pid"), cause));
    let host = NamespaceMode::Node;
    match NamespaceMode::try_from(own.pid) {
        Ok(NamespaceMode::Container) => Ok(NamespaceSpec::New),
        Ok(NamespaceMode::Pod) if sandbox.pid == i32::from(host) => Ok(NamespaceSpec::Host),
        Ok(NamespaceMode::Pod) => match &asked.place.pid {
            Some(pin) => Ok(NamespaceSpec::At(pin.clone())),
            // The sandbox shares none: refused only if the request names the mode.
            None if asked.options().is_none() => Ok(NamespaceSpec::New),
            None => refused("POD: the sandbox shares no processes"),
        },
        Ok(NamespaceMode::Node) if sandbox.pid == i32::from(host) => Ok(NamespaceSpec::Host),
        Ok(NamespaceMode::Node) => refused("NODE: the sandbox is not in the host's"),
        Ok(NamespaceMode::Target) => match asked.target {
            Some(target) => Ok(NamespaceSpec::At(target.to_owned())),
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
    ids: Option<&IdMappings>,
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
    let mut settings = container::sysctl::for_pod(&linux.sysctls, ids);
    if let Some(ids) = ids {
        ping::as_the_host_knows(&mut settings, ids, &linux.sysctls)?;
    }
    Ok(settings)
}
