//! Decides whether a container gets a user namespace. If the caller gives one, nothing changes; otherwise the
//! annotations of the pod's sandbox decide, together with the node's configuration.

use std::collections::BTreeMap;

use ids::BlockLength;
use kernel::Process;
use oci_records::{Pod, Record, Standing};
use plan::OnClosedGate;

use super::membership;
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{Asked, AskedLength, Role, asked, pod_of};
use crate::site::Site;
use crate::spec::{self, PartialSpec, Users};

/// What `create` does with a container.
pub(super) enum Decision {
    /// No user namespace is asked for: the call is passed on unchanged.
    AsItIs,
    /// The call is passed on unchanged, with this line in the log.
    Said(String),
    /// The pod asks for a user namespace, and `wrapper.enable_user_namespace_annotation` is false.
    Closed { pod: Pod, asked_by: &'static str },
    /// The container is the sandbox of a pod with a user namespace.
    Sandbox(Box<First>),
    /// The container joins its pod's user namespace.
    Inherit(Box<Next>),
}

/// The sandbox container of a pod with a user namespace.
pub(super) struct First {
    pub(super) text: Vec<u8>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) pod: Pod,
    pub(super) asked_by: &'static str,
    pub(super) length: Option<BlockLength>,
}

/// Any other container of such a pod.
pub(super) struct Next {
    pub(super) text: Vec<u8>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) networks: Vec<String>,
    /// The record of the sandbox that its annotations name.
    pub(super) sandbox: Record,
}

pub(super) fn decide(site: &Site<'_>, wanted: &Create) -> Result<Decision> {
    let text = match spec::read(&wanted.config) {
        Ok(text) => text,
        // The runtime reports the error itself.
        Err(_) if !site.settings().enabled => return Ok(Decision::AsItIs),
        Err(e) => return Err(e),
    };
    let partial = match spec::parse_partial(&text) {
        Ok(partial) => partial,
        Err(_) if !site.settings().enabled => return Ok(Decision::AsItIs),
        Err(cause) => return Err(Error::spec(&wanted.config, cause)),
    };
    match Role::of(&partial.annotations, &wanted.id) {
        Ok(Role::Container { sandbox }) => container(site, &wanted.id, text, partial, sandbox),
        Ok(Role::Sandbox) => first(site, text, partial),
        Err(contradiction) => {
            stays_outside(site, &wanted.id, &partial)?;
            if site.settings().enabled && partial.users == Users::Unsaid {
                return Err(contradiction.into());
            }
            Ok(Decision::AsItIs)
        }
    }
}

/// The annotation by which a container asks for a user namespace, if the configuration allows that and the caller gives
/// none.
fn asks(site: &Site<'_>, partial: &PartialSpec) -> Result<Option<&'static str>> {
    match asked(&partial.annotations)? {
        Asked::UserNamespace { by, .. } if partial.users == Users::Unsaid && site.settings().enabled => {
            Ok(Some(by))
        }
        _ => Ok(None),
    }
}

/// Refuses a container that is in the network namespace of an isolated pod and does not name that pod's sandbox: it
/// would run there with the host's user IDs.
fn stays_outside(site: &Site<'_>, container: &str, partial: &PartialSpec) -> Result<()> {
    match membership::isolated_sandbox(site, &partial.networks)? {
        None => Ok(()),
        Some(Record { container: sandbox, .. }) => {
            Err(Error::Undeclared { container: container.to_owned(), sandbox })
        }
    }
}

/// Decides on a container that is not a sandbox: it gets what its sandbox has, whatever its own annotations ask for.
/// Its annotations name the sandbox, and its network namespace must be that of the sandbox.
fn container(
    site: &Site<'_>,
    id: &str,
    text: Vec<u8>,
    partial: PartialSpec,
    sandbox: String,
) -> Result<Decision> {
    let broken = |cause: &str| Error::Sandbox { sandbox: sandbox.clone(), cause: cause.to_owned() };
    match site.records.get(&site.root(), &sandbox)? {
        Some(record) if matches!(record.standing, Standing::Isolated { .. }) => {
            if partial.users == Users::Given {
                return Err(broken("has a user namespace, and the container is given another"));
            }
            let PartialSpec { annotations, networks, .. } = partial;
            Ok(Decision::Inherit(Box::new(Next { text, annotations, networks, sandbox: record })))
        }
        record => {
            stays_outside(site, id, &partial)?;
            match (asks(site, &partial)?, record) {
                (None, _) => Ok(Decision::AsItIs),
                (Some(by), None) => Err(Error::Unseen { sandbox, by }),
                (Some(_), Some(record)) if is_of(&record, &partial)? => Ok(Decision::AsItIs),
                (Some(_), Some(_)) => Err(Error::Foreign { container: id.to_owned(), sandbox }),
            }
        }
    }
}

/// Whether a container is in the network namespace of this sandbox, which runs with the host's user IDs.
fn is_of(sandbox: &Record, partial: &PartialSpec) -> Result<bool> {
    match sandbox.pid().map(Process::open) {
        Some(Ok(process)) => membership::is_in(&partial.networks, &process),
        _ => Ok(false),
    }
}

fn first(site: &Site<'_>, text: Vec<u8>, partial: PartialSpec) -> Result<Decision> {
    let Asked::UserNamespace { by, length } = asked(&partial.annotations)? else {
        return Ok(Decision::AsItIs);
    };
    let pod = pod_of(&partial.annotations);
    if partial.users == Users::Given {
        return Ok(Decision::Said(format!(
            "pod {pod}: {by} asks for a user namespace, the caller gives one"
        )));
    }
    if site.settings().enabled {
        let length = length.map(|asked| within(site, asked)).transpose()?;
        let first = First { text, annotations: partial.annotations, pod, asked_by: by, length };
        return Ok(Decision::Sandbox(Box::new(first)));
    }
    match site.config.settings.policy.on_closed_gate {
        OnClosedGate::AsBefore => Ok(Decision::Closed { pod, asked_by: by }),
        OnClosedGate::Refuse => Err(Error::ClosedGate { pod: pod.to_string() }),
    }
}

/// The number of IDs that a pod asks for. It is an error if the operator allows fewer for one pod.
fn within(site: &Site<'_>, asked: AskedLength) -> Result<BlockLength> {
    let allowed = site.longest_block();
    if asked.ids > allowed {
        return Err(Error::TooManyIds { by: asked.by, asked: asked.ids, allowed });
    }
    Ok(asked.ids)
}
