//! The nearest known name of an unknown field.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use k8s_openapi::Resource;
use serde::de::DeserializeOwned;

use super::{Fault, Schema, Unknown};
use crate::finding::Problem;

/// How many places a hint names at most.
const PLACES: usize = 3;

pub(super) fn unknown_field<T: DeserializeOwned + Resource + 'static>(unknown: &Unknown<'_>) -> Fault {
    let names: Vec<&str> = unknown.path.names();
    let here = names.split_last().map_or(&[][..], |(_, parents)| parents);
    let elsewhere = places::<T>(unknown.name, here);
    let sibling = nearest(unknown.name, unknown.siblings.iter().copied());
    let (like, belongs) = match (sibling, elsewhere.is_empty()) {
        (Some(near), _) if near.to_lowercase() == unknown.name.to_lowercase() => (Some(near), Vec::new()),
        (_, false) => (None, elsewhere),
        (near, true) => (near, Vec::new()),
    };
    let near_elsewhere = || {
        let schema = schema::<T>()?;
        let all = schema.fields().iter().filter_map(|f| f.path.rsplit('.').next());
        nearest(unknown.name, all).map(|name| places::<T>(&name, here))
    };
    let belongs =
        if like.is_none() && belongs.is_empty() { near_elsewhere().unwrap_or_default() } else { belongs };
    Fault {
        at: unknown.at,
        path: unknown.path.to_string(),
        names: names.iter().map(|&n| n.to_owned()).collect(),
        problem: Problem::UnknownField { name: unknown.name.to_owned(), nearest: like, belongs },
    }
}

/// The places of an object that have a field of this name, the nearest to `here` first.
fn places<T: DeserializeOwned + Resource + 'static>(name: &str, here: &[&str]) -> Vec<String> {
    let Some(schema) = schema::<T>() else { return Vec::new() };
    let is_input = |path: &&str| !path.starts_with("status") && !path.contains("managedFields");
    let paths = schema.fields().iter().map(|f| f.path.as_str()).filter(is_input);
    let mut found: Vec<&str> = paths.filter(|path| path.rsplit('.').next() == Some(name)).collect();
    found.sort_by_key(|path| {
        (usize::MAX - shared(path, here), path.matches('.').count(), path.contains("init"))
    });
    found.into_iter().take(PLACES).map(str::to_owned).collect()
}

/// How many steps a path has in common with where we are.
fn shared(path: &str, here: &[&str]) -> usize {
    let steps = path.split('.').map(|step| step.trim_end_matches("[]"));
    steps.zip(here).take_while(|(step, name)| step == *name).count()
}

/// The known name that is one or two slips of the pen away.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    let slips = (lower.chars().count() / 3).clamp(1, 3);
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    let scored = known.map(|known| (distance(known), known)).filter(|(d, _)| *d <= slips);
    scored.min().map(|(_, known)| known.to_owned())
}

thread_local! {
    /// A type's schema never changes; making it takes a walk over a thousand fields.
    static SCHEMAS: RefCell<HashMap<TypeId, Option<Rc<Schema>>>> = RefCell::default();
}

fn schema<T: DeserializeOwned + Resource + 'static>() -> Option<Rc<Schema>> {
    let make = || Schema::of::<T>().map(Rc::new);
    SCHEMAS.with_borrow_mut(|all| all.entry(TypeId::of::<T>()).or_insert_with(make).clone())
}
