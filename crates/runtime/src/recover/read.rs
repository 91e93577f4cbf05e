use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::files::make_dir;
use crate::id::Id;
use crate::node::Node;
use crate::records::{ContainerRecord, SandboxRecord};
use crate::store::{Container, Sandbox};
use crate::{container, sandbox};

/// Sandboxes and containers with a readable record.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    pub(super) sandboxes: BTreeSet<Id>,
    pub(super) containers: BTreeSet<Id>,
    /// Directories without a record.
    pub(super) orphans: Orphans,
}

/// IDs of sandboxes and containers that have a directory and no record.
#[derive(Debug, Default, Clone)]
pub(super) struct Orphans {
    pub(super) sandboxes: BTreeSet<Id>,
    pub(super) containers: BTreeSet<Id>,
}

/// Reads all records into the store. Blocks.
///
/// # Errors
/// If the system keeps a record from us, or a newer server wrote it: what it stands for may be well, and is not
/// ended for that.
pub(super) fn all(node: &Node) -> Result<Known> {
    let mut known = Known::default();
    for id in ids(&node.layout.sandbox_states())? {
        if one_sandbox(node, &id)? {
            known.sandboxes.insert(id);
        } else {
            known.orphans.sandboxes.insert(id);
        }
    }
    for id in ids(&node.layout.container_states())? {
        if one_container(node, &id)? {
            known.containers.insert(id);
        } else {
            known.orphans.containers.insert(id);
        }
    }
    Ok(known)
}

/// Whether there is one.
fn one_sandbox(node: &Node, id: &Id) -> Result<bool> {
    let places = node.layout.sandbox(id);
    let read = durable::read_record::<SandboxRecord>(&places.record()).map_err(Error::from);
    match read.and_then(|record| of_id(record, id, &places.record())) {
        Ok(None) => Ok(false),
        Ok(Some(record)) => {
            if let Ok(name) = sandbox::name(&record.config) {
                warn_of(node.store.reserve("sandbox", &name, id));
            }
            node.store.add_sandbox(Arc::new(Sandbox::new(record, places)));
            Ok(true)
        }
        Err(error @ (Error::File { .. } | Error::Newer { .. })) => Err(error),
        Err(error) => Ok(set_aside(node, id, "sandbox", &places.record(), &error)),
    }
}

/// Whether there is one.
fn one_container(node: &Node, id: &Id) -> Result<bool> {
    let places = node.layout.container(id);
    let read = durable::read_record::<ContainerRecord>(&places.record()).map_err(Error::from);
    let lived = read.and_then(|record| of_id(record, id, &places.record())).and_then(|record| {
        record.map(|record| Ok((ContainerState::read(&places.state, &record.stage)?, record))).transpose()
    });
    match lived {
        Ok(None) => Ok(false),
        Ok(Some((life, record))) => {
            if let Ok(name) = container::name(&record.sandbox, &record.config) {
                warn_of(node.store.reserve("container", &name, id));
            }
            node.store.add_container(Arc::new(Container::new(record, places, life)));
            Ok(true)
        }
        Err(error @ (Error::File { .. } | Error::Newer { .. })) => Err(error),
        Err(error) => Ok(set_aside(node, id, "container", &places.record(), &error)),
    }
}

/// Moves a damaged record to the directory of damaged records. Its sandbox or container is then killed and removed, as
/// no client could list or stop it.
fn set_aside(node: &Node, id: &Id, what: &str, record: &Path, error: &Error) -> bool {
    let aside = node.layout.damaged().join(format!("{id}.json"));
    let moved = make_dir(&node.layout.damaged()).and_then(|()| Ok(durable::rename(record, &aside)?));
    let kept = moved.map_or_else(
        |cause| format!("its record is not kept: {cause}"),
        |()| format!("its record is kept as {}", aside.display()),
    );
    warn!(%id, "{what} {id} is ended and removed, {kept}: {error}");
    false
}

/// A record that names what it is about.
trait Named {
    fn id(&self) -> &Id;
}

impl Named for SandboxRecord {
    fn id(&self) -> &Id {
        &self.id
    }
}

impl Named for ContainerRecord {
    fn id(&self) -> &Id {
        &self.id
    }
}

/// The record, if it is about the object whose directory it is in.
fn of_id<T: Named>(record: Option<T>, id: &Id, path: &Path) -> Result<Option<T>> {
    match record {
        Some(record) if record.id() != id => Err(Error::Step {
            step: format!("use {}", path.display()),
            cause: format!("it is the record of another, {}", record.id()),
            hint: None,
        }),
        record => Ok(record),
    }
}

fn warn_of(outcome: Result<()>) {
    if let Err(error) = outcome {
        warn!("{error}");
    }
}

/// The names in a directory that are IDs. Others are not ours.
pub(super) fn ids(dir: &Path) -> Result<Vec<Id>> {
    let failed = |cause| Error::File { what: "read", path: dir.to_owned(), cause };
    let names = fs::read_dir(dir).map_err(failed)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<Result<_, _>>().map_err(failed)?;
    Ok(names.iter().filter_map(|name| Id::parse(name.to_str()?)).collect())
}
