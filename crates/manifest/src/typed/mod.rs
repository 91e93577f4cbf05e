//! From a tree to the API's types: every unknown field and every wrong type with its place.

mod de;
mod fault;
mod schema;
mod suggest;

use std::cell::RefCell;

use k8s_openapi::Resource;
use serde::de::DeserializeOwned;

use crate::finding::{MAX_FINDINGS, Problem};
use crate::place::{Path, Position};
use crate::tree::Node;

pub use schema::{Field, Schema};

/// Something wrong at a place of a tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) at: Position,
    pub(crate) path: String,
    /// Names of the fields on the way, the faulty one last.
    pub(crate) names: Vec<String>,
    pub(crate) problem: Problem,
}

/// A field that a struct of the API does not have.
pub(crate) struct Unknown<'a> {
    pub(crate) at: Position,
    pub(crate) path: &'a Path<'a>,
    pub(crate) name: &'a str,
    pub(crate) siblings: &'static [&'static str],
}

/// What `T` makes of this tree, and what it has no place for.
pub(crate) fn typed<T: DeserializeOwned + Resource + 'static>(
    node: &Node,
    prefix: &str,
) -> (Option<T>, Vec<Fault>) {
    let found = RefCell::new(Vec::new());
    let record = |unknown: Unknown<'_>| {
        let mut found = found.borrow_mut();
        match found.len() {
            0..MAX_FINDINGS => found.push(suggest::unknown_field::<T>(&unknown)),
            // A finding of its own, so that readers do not take the rest for valid.
            MAX_FINDINGS => found.push(too_many(&unknown)),
            _ => {}
        }
    };
    let root = Path::Under(prefix);
    let value = T::deserialize(de::Reader::root(node, &root, &record));
    let mut faults = found.take();
    match value {
        Ok(value) => (Some(value), faults),
        Err(error) => {
            faults.push(error.into_fault(node.at, prefix));
            (None, faults)
        }
    }
}

fn too_many(unknown: &Unknown<'_>) -> Fault {
    let path = unknown.path.to_string();
    Fault { at: unknown.at, path, names: Vec::new(), problem: Problem::too_many() }
}
