use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::book::{Container, Sandbox};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::life::Life;
use crate::node::{Node, make_dir};
use crate::records::{ContainerRecord, SandboxRecord};
use crate::{container, sandbox};

/// Whose directories are somebody's: those with a record that can be read.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    pub(super) sandboxes: BTreeSet<Id>,
    pub(super) containers: BTreeSet<Id>,
    /// Directories of the state that are nobody's.
    pub(super) nobodys: Nobodys,
}

/// What has a directory and no record, by whose it was.
#[derive(Debug, Default, Clone)]
pub(super) struct Nobodys {
    pub(super) sandboxes: BTreeSet<Id>,
    pub(super) containers: BTreeSet<Id>,
}

/// Reads all records into the book. Blocks.
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
            known.nobodys.sandboxes.insert(id);
        }
    }
    for id in ids(&node.layout.container_states())? {
        if one_container(node, &id)? {
            known.containers.insert(id);
        } else {
            known.nobodys.containers.insert(id);
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
                told(node, node.book.reserve("sandbox", &name, id));
            }
            node.book.add_sandbox(Arc::new(Sandbox::new(record, places)));
            Ok(true)
        }
        Err(error @ (Error::File { .. } | Error::Newer { .. })) => Err(error),
        Err(error) => Ok(set_aside(node, id, ("sandbox", &places.record()), &error)),
    }
}

/// Whether there is one.
fn one_container(node: &Node, id: &Id) -> Result<bool> {
    let places = node.layout.container(id);
    let read = durable::read_record::<ContainerRecord>(&places.record()).map_err(Error::from);
    let lived = read.and_then(|record| of_id(record, id, &places.record())).and_then(|record| {
        record.map(|record| Ok((Life::read(&places.state, &record.stage)?, record))).transpose()
    });
    match lived {
        Ok(None) => Ok(false),
        Ok(Some((life, record))) => {
            if let Ok(name) = container::name(&record.sandbox, &record.config) {
                told(node, node.book.reserve("container", &name, id));
            }
            node.book.add_container(Arc::new(Container::new(record, places, life)));
            Ok(true)
        }
        Err(error @ (Error::File { .. } | Error::Newer { .. })) => Err(error),
        Err(error) => Ok(set_aside(node, id, ("container", &places.record()), &error)),
    }
}

/// Keeps a record that is of no use where nobody takes it for one. What it was the record of has none then,
/// and is ended and removed: it could not be shown, nor stopped.
fn set_aside(node: &Node, id: &Id, of: (&str, &Path), error: &Error) -> bool {
    let (what, record) = of;
    let aside = node.layout.damaged().join(format!("{id}.json"));
    let moved = make_dir(&node.layout.damaged()).and_then(|()| Ok(durable::rename(record, &aside)?));
    let kept = moved.map_or_else(
        |cause| format!("its record is not kept: {cause}"),
        |()| format!("its record is kept as {}", aside.display()),
    );
    node.tell(&format!("{what} {id} is ended and removed, {kept}: {error}"));
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

fn told(node: &Node, outcome: Result<()>) {
    if let Err(error) = outcome {
        node.tell(&error.to_string());
    }
}

/// The names in a directory that are IDs. Others are not ours.
pub(super) fn ids(dir: &Path) -> Result<Vec<Id>> {
    let failed = |cause| Error::File { what: "read", path: dir.to_owned(), cause };
    let names = fs::read_dir(dir).map_err(failed)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<Result<_, _>>().map_err(failed)?;
    Ok(names.iter().filter_map(|name| Id::parse(name.to_str()?)).collect())
}
