//! Names and positions of objects, and what is said of them in reports: a contract with programs once written as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a pod without an owner.
const POD: &str = "Pod";
/// The name of a crowd. No object can be called so.
const ALL: &str = "*";

/// A reference to an object: kind, namespace and name. A pod without an owner is a workload of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `ReplicaSet`, `Job`, `CronJob`, `Pod`, or whatever
    /// kind a pod says its owner is.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name in the namespace.
    pub name: String,
}

impl ObjectRef {
    /// Stands for many pods without an owner in one namespace.
    #[must_use]
    pub fn crowd(namespace: &str) -> Self {
        Self { kind: POD.to_owned(), namespace: namespace.to_owned(), name: ALL.to_owned() }
    }

    /// Whether this is a pod, which is so only for pods without an owner, or a crowd of them.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.kind == POD
    }

    /// Whether this stands for many pods without an owner.
    #[must_use]
    pub fn is_crowd(&self) -> bool {
        self.is_pod() && self.name == ALL
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A position in a file: line and column.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourcePosition {
    /// The file, as it was named; for a cluster, the request.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// Something that could not be read or understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where, if it is in a text.
    pub place: Option<SourcePosition>,
    /// The field; empty when it is about more than one.
    pub field: String,
    /// What is wrong.
    pub cause: String,
    /// What to do about it; empty where nothing is known.
    pub hint: String,
}

/// The highest level of the Pod Security Standards that a workload keeps to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSecurity {
    /// `privileged`, `baseline` or `restricted`.
    pub now: String,
    /// The same with `hostUsers: false`.
    pub with_user_namespace: String,
    /// What keeps it from the next level, as it is now.
    pub violations: Vec<Violation>,
}

/// A field that a level of the Pod Security Standards does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The level that does not allow it.
    pub level: String,
    /// Upstream's name of the check.
    pub check: String,
    /// The field, as the object writes it.
    pub field: String,
    /// What is written there.
    pub found: String,
    /// Whether a user namespace makes it allowed.
    pub allowed_in_user_namespace: bool,
}
