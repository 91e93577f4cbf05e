//! Who decides: the caller where it brings a user namespace, else the pod's sandbox, by its annotations and
//! the operator's gate.

use std::collections::BTreeMap;

use ids::BlockLength;
use plan::OnClosedGate;

use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{Asked, Pod, Role, asked};
use crate::lease::{Record, Standing};
use crate::site::Site;
use crate::spec::{self, Glance, Users};

/// What becomes of a container.
pub(super) enum Decision {
    /// Nobody asks for anything.
    AsItIs,
    /// It stays as it is, which is worth a line.
    Said(String),
    /// Asked for, and the gate is closed.
    Closed { pod: Pod, asked_by: &'static str },
    /// It is the first of a pod with a user namespace.
    Sandbox(Box<First>),
    /// It joins its pod's user namespace.
    Inherit(Box<Next>),
}

/// The first container of a pod with a user namespace.
pub(super) struct First {
    pub(super) text: Vec<u8>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) pod: Pod,
    pub(super) asked_by: &'static str,
    pub(super) length: Option<BlockLength>,
}

/// Another one.
pub(super) struct Next {
    pub(super) text: Vec<u8>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) sandbox: Record,
}

pub(super) fn decide(site: &Site<'_>, wanted: &Create) -> Result<Decision> {
    let text = match spec::read(&wanted.config) {
        Ok(text) => text,
        // The runtime says so in its own words.
        Err(_) if !site.settings().enabled => return Ok(Decision::AsItIs),
        Err(e) => return Err(e),
    };
    let glance = match spec::glance(&text) {
        Ok(glance) => glance,
        Err(_) if !site.settings().enabled => return Ok(Decision::AsItIs),
        Err(cause) => return Err(Error::spec(&wanted.config, cause)),
    };
    match Role::of(&glance.annotations) {
        Some(Role::Container { sandbox }) => container(site, text, glance, sandbox),
        role => first(site, text, glance, role.as_ref()),
    }
}

/// A container goes by its sandbox, whatever its own annotations say.
fn container(site: &Site<'_>, text: Vec<u8>, glance: Glance, sandbox: String) -> Result<Decision> {
    let broken = |cause: &str| Error::Sandbox { sandbox: sandbox.clone(), cause: cause.to_owned() };
    match site.records.get(&site.root(), &sandbox)? {
        Some(record) if matches!(record.standing, Standing::Ward { .. }) => {
            if glance.users == Users::Given {
                return Err(broken("has a user namespace, and the container is given another"));
            }
            let next = Next { text, annotations: glance.annotations, sandbox: record };
            Ok(Decision::Inherit(Box::new(next)))
        }
        Some(_) => Ok(Decision::AsItIs),
        None => match asked(&glance.annotations)? {
            Asked::UserNamespace { by, .. } if glance.users == Users::Unsaid && site.settings().enabled => {
                Err(Error::Unseen { sandbox, by })
            }
            _ => Ok(Decision::AsItIs),
        },
    }
}

fn first(site: &Site<'_>, text: Vec<u8>, glance: Glance, role: Option<&Role>) -> Result<Decision> {
    let Asked::UserNamespace { by, length } = asked(&glance.annotations)? else {
        return Ok(Decision::AsItIs);
    };
    let pod = Pod::of(&glance.annotations);
    if glance.users == Users::Given {
        return Ok(Decision::Said(format!(
            "pod {pod}: {by} asks for a user namespace, the caller gives one"
        )));
    }
    if role.is_none() {
        let cause = "names no sandbox, and asks for a user namespace".to_owned();
        return Err(Error::Sandbox { sandbox: "of this container".to_owned(), cause });
    }
    if site.settings().enabled {
        let first = First { text, annotations: glance.annotations, pod, asked_by: by, length };
        return Ok(Decision::Sandbox(Box::new(first)));
    }
    match site.config.settings.policy.on_closed_gate {
        OnClosedGate::AsBefore => Ok(Decision::Closed { pod, asked_by: by }),
        OnClosedGate::Refuse => Err(Error::ClosedGate { pod: pod.to_string() }),
    }
}
