//! The fields of every kind that is compared, from our own schema.

use std::collections::BTreeMap;

use manifest::Schema;
use manifest::k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use manifest::k8s_openapi::api::batch::v1::{CronJob, Job};
use manifest::k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};

/// One step of the way to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    /// Any item of a list.
    Item,
    /// Any key of a map.
    Key,
}

/// A field, with the way to it.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) path: String,
    pub(super) steps: Vec<Step>,
}

/// A kind of object: its fields, and the type at every path.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) kind: &'static str,
    pub(super) fields: Vec<Field>,
    types: BTreeMap<String, String>,
}

impl Shape {
    fn new(kind: &'static str, schema: &Schema) -> Self {
        let types = schema.fields().iter().map(|f| (f.path.clone(), f.kind.clone())).collect();
        let is_set = |path: &str| !matches!(path, "apiVersion" | "kind" | "metadata" | "spec" | "status");
        let written = schema.fields().iter().filter(|f| is_set(&f.path));
        let fields = written.map(|f| Field { path: f.path.clone(), steps: steps(&f.path) }).collect();
        Self { kind, fields, types }
    }

    /// The type at a path of the schema; the object itself is at the empty one.
    pub(super) fn type_at(&self, path: &str) -> &str {
        self.types.get(path).map_or(self.kind, String::as_str)
    }
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, items) = (part.trim_end_matches("[]"), part.matches("[]").count());
        steps.push(if name == "*" { Step::Key } else { Step::Name(name.to_owned()) });
        steps.extend((0..items).map(|_| Step::Item));
    }
    steps
}

/// The path of the schema one step further.
pub(super) fn below(path: &str, step: &Step) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    match step {
        Step::Name(name) => format!("{path}{dot}{name}"),
        Step::Item => format!("{path}[]"),
        Step::Key => format!("{path}{dot}*"),
    }
}

/// Every kind that is compared.
pub(super) fn shapes() -> Vec<Shape> {
    macro_rules! of {
        ($($kind:ident)*) => { vec![$(Shape::new(stringify!($kind), &Schema::of::<$kind>().unwrap())),*] };
    }
    of!(Pod Deployment StatefulSet DaemonSet ReplicaSet Job CronJob PersistentVolumeClaim PersistentVolume)
}
