use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::book::{Container, Sandbox};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::life::Life;
use crate::node::{Node, remove_dir};
use crate::records::{ContainerRecord, SandboxRecord, VERSION};
use crate::{container, durable, sandbox};

/// Whose directories are somebody's: those with a record, readable or not.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) sandboxes: BTreeSet<Id>,
    pub(super) containers: BTreeSet<Id>,
}

/// Reads all records into the book. Blocks.
pub(super) fn all(node: &Node) -> Result<Known> {
    let mut known = Known::default();
    for id in ids(&node.layout.sandbox_states())? {
        let places = node.layout.sandbox(&id);
        match durable::read::<SandboxRecord>(&places.record()).and_then(|record| known_version(record, &id)) {
            Ok(None) => remove_dir(&places.state)?,
            Ok(Some(record)) => {
                if let Ok(name) = sandbox::name(&record.config) {
                    told(node, node.book.reserve("sandbox", &name, &id));
                }
                node.book.add_sandbox(Arc::new(Sandbox::new(record, places)));
                known.sandboxes.insert(id);
            }
            Err(error) => {
                node.tell(&format!("sandbox {id} is left as it is: {error}"));
                known.sandboxes.insert(id);
            }
        }
    }
    for id in ids(&node.layout.container_states())? {
        one_container(node, &id, &mut known)?;
    }
    Ok(known)
}

fn one_container(node: &Node, id: &Id, known: &mut Known) -> Result<()> {
    let places = node.layout.container(id);
    let read =
        durable::read::<ContainerRecord>(&places.record()).and_then(|record| known_version(record, id));
    let lived = read.and_then(|record| {
        record.map(|record| Ok((Life::read(&places.state, &record.stage)?, record))).transpose()
    });
    match lived {
        Ok(None) => return remove_dir(&places.state),
        Ok(Some((life, record))) => {
            if let Ok(name) = container::name(&record.sandbox, &record.config) {
                told(node, node.book.reserve("container", &name, id));
            }
            node.book.add_container(Arc::new(Container::new(record, places, life)));
        }
        Err(error) => node.tell(&format!("container {id} is left as it is: {error}")),
    }
    known.containers.insert(id.clone());
    Ok(())
}

/// A record of a form that we know.
trait Versioned {
    fn version(&self) -> u32;
}

impl Versioned for SandboxRecord {
    fn version(&self) -> u32 {
        self.version
    }
}

impl Versioned for ContainerRecord {
    fn version(&self) -> u32 {
        self.version
    }
}

fn known_version<T: Versioned>(record: Option<T>, id: &Id) -> Result<Option<T>> {
    match record {
        Some(record) if record.version() != VERSION => Err(Error::Step {
            step: format!("read the record of {id}"),
            cause: format!("its version is {}, and {VERSION} is the one that is known", record.version()),
            hint: Some("a newer wardlet has written it".to_owned()),
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
