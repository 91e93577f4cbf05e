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
use crate::records::{ContainerRecord, SandboxRecord, VERSION};
use crate::{container, durable, sandbox};

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
    let read = not_newer(&places.record()).and_then(|()| durable::read::<SandboxRecord>(&places.record()));
    match read.and_then(|record| known_form(record, id, &places.record())) {
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
    let read = not_newer(&places.record()).and_then(|()| durable::read::<ContainerRecord>(&places.record()));
    let lived = read.and_then(|record| known_form(record, id, &places.record())).and_then(|record| {
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
    let moved = make_dir(&node.layout.damaged()).and_then(|()| {
        let failed = |cause| Error::File { what: "set aside", path: record.to_owned(), cause };
        fs::rename(record, &aside).map_err(failed)
    });
    let kept = moved.map_or_else(
        |cause| format!("its record is not kept: {cause}"),
        |()| format!("its record is kept as {}", aside.display()),
    );
    node.tell(&format!("{what} {id} is ended and removed, {kept}: {error}"));
    false
}

/// All that is looked at before a record is read as one of ours.
#[derive(serde::Deserialize)]
struct OnlyVersion {
    version: u32,
}

fn not_newer(path: &Path) -> Result<()> {
    match durable::read::<OnlyVersion>(path) {
        Ok(Some(OnlyVersion { version })) if version > VERSION => {
            Err(Error::Newer { path: path.to_owned(), version })
        }
        Err(error @ Error::File { .. }) => Err(error),
        // What is no record at all is found out when it is read as one.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A record of a form that we know.
trait Form {
    fn version(&self) -> u32;
    fn id(&self) -> &Id;
}

impl Form for SandboxRecord {
    fn version(&self) -> u32 {
        self.version
    }

    fn id(&self) -> &Id {
        &self.id
    }
}

impl Form for ContainerRecord {
    fn version(&self) -> u32 {
        self.version
    }

    fn id(&self) -> &Id {
        &self.id
    }
}

fn known_form<T: Form>(record: Option<T>, id: &Id, path: &Path) -> Result<Option<T>> {
    let wrong = |cause: String, hint: Option<&str>| Error::Step {
        step: format!("use {}", path.display()),
        cause,
        hint: hint.map(Into::into),
    };
    match record {
        Some(record) if record.version() != VERSION => Err(wrong(
            format!("its version is {}, and {VERSION} is the one that is known", record.version()),
            None,
        )),
        Some(record) if record.id() != id => {
            Err(wrong(format!("it is the record of another, {}", record.id()), None))
        }
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
