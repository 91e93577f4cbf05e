//! What a container may do: capabilities, system calls, AppArmor, SELinux, hidden paths.

mod profile;
mod seccomp;

use ::selinux::Label;
use container::capabilities::{self, Sets};
use container::defaults;

pub(super) use profile::apparmor;
pub(super) use seccomp::seccomp;
use types::Refusal;

use super::request::{ContainerRequest, SECURITY};
use crate::selinux;

/// The five sets; a privileged container has all.
pub(super) fn capabilities(asked: &ContainerRequest<'_>) -> Result<Sets, Refusal> {
    let security = asked.security();
    if security.privileged {
        let sandbox = asked.sandbox_security().is_some_and(|sandbox| sandbox.privileged);
        if !sandbox {
            let cause = "the sandbox was not made for privileged containers";
            return Err(Refusal::new(format!("{SECURITY}.privileged"), cause));
        }
        return Ok(capabilities::all());
    }
    let given = security.capabilities.unwrap_or_default();
    let lists = [
        ("add_capabilities", &given.add_capabilities),
        ("drop_capabilities", &given.drop_capabilities),
        ("add_ambient_capabilities", &given.add_ambient_capabilities),
    ];
    let wanted = capabilities::RequestedCapabilities {
        add: given.add_capabilities.clone(),
        drop: given.drop_capabilities.clone(),
        add_ambient: given.add_ambient_capabilities.clone(),
    };
    capabilities::of(&wanted).map_err(|refused| {
        let list = lists.iter().find(|(_, list)| list.contains(refused.name())).map_or("", |(name, _)| *name);
        Refusal::new(format!("{SECURITY}.capabilities.{list}"), refused.to_string())
    })
}

/// Paths that are seen empty.
///
/// A caller that has a security context says all of them: without any, nothing is hidden, as procMount `Unmasked`
/// wants it. One that has none gets the usual ones.
pub(super) fn masked_paths(asked: &ContainerRequest<'_>) -> Result<Vec<String>, Refusal> {
    paths(asked, "masked_paths", asked.security().masked_paths, defaults::masked_paths)
}

/// Paths that cannot be changed, by the same rule.
pub(super) fn read_only_paths(asked: &ContainerRequest<'_>) -> Result<Vec<String>, Refusal> {
    paths(asked, "readonly_paths", asked.security().readonly_paths, defaults::read_only_paths)
}

fn paths(
    asked: &ContainerRequest<'_>,
    name: &str,
    given: Vec<String>,
    usual: fn() -> Vec<String>,
) -> Result<Vec<String>, Refusal> {
    let spoken = asked.config.linux.as_ref().is_some_and(|linux| linux.security_context.is_some());
    if asked.security().privileged {
        return Ok(Vec::new());
    }
    if !spoken {
        return Ok(usual());
    }
    match given.iter().position(|path| !path.starts_with('/')) {
        Some(index) => Err(Refusal::new(format!("{SECURITY}.{name}[{index}]"), "is not absolute".to_owned())),
        None => Ok(given),
    }
}

/// The label of its processes: what it asks for itself, else the sandbox's. A privileged one has the policy's label for
/// those, whatever it asks for; without a label it would have the runtime's own.
pub(super) fn selinux(asked: &ContainerRequest<'_>) -> Result<Option<String>, Refusal> {
    let label = if asked.security().privileged { asked.node.privileged_label.clone() } else { label(asked)? };
    Ok(label.map(|label| label.to_string()))
}

/// The label of files that only its processes reach.
pub(super) fn file_label(asked: &ContainerRequest<'_>) -> Result<Option<String>, Refusal> {
    let host = asked.node.selinux.as_ref();
    Ok(host.zip(label(asked)?).map(|(host, label)| host.file_label_of(&label).to_string()))
}

fn label(asked: &ContainerRequest<'_>) -> Result<Option<Label>, Refusal> {
    let security = asked.security();
    let (Some(host), false) = (&asked.node.selinux, security.privileged) else { return Ok(None) };
    let options = selinux::options(&security.selinux_options.unwrap_or_default());
    let sandbox = asked.place.label.as_ref();
    if let (true, Some(label)) = (options.is_empty(), sandbox) {
        return Ok(Some(label.clone()));
    }
    // Without a level of its own it keeps the pod's, so that it reaches the pod's volumes.
    let level = sandbox.and_then(|label| label.level().cloned());
    let label = host.process_label(&options, level);
    label.map(Some).map_err(|e| Refusal::new(format!("{SECURITY}.selinux_options"), e.to_string()))
}
