//! Where a pod is, and where it can go.

use std::collections::{BTreeMap, BTreeSet};

/// Where a pod is, and what its own text says on where it can go. Which nodes there are does not
/// matter: one may be added that fits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: Node,
    /// `schedulerName`; only the default scheduler is known to keep to what follows.
    pub scheduler: Option<String>,
    /// The kind of the owner that controls it. A `DaemonSet` goes to every node, and a pod of a `Node`
    /// was never scheduled.
    pub owner_kind: Option<String>,
    /// `nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// The terms of the required node affinity, of which one has to hold; `None` if there is none.
    pub node_terms: Option<Vec<NodeTerm>>,
    /// The terms of the required pod anti-affinity, all of which hold.
    pub anti_affinity: Vec<AntiAffinity>,
    /// The pod's own labels, which others' anti-affinity selects.
    pub labels: BTreeMap<String, String>,
}

/// On which node a pod is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Node {
    /// On none yet.
    #[default]
    Unbound,
    /// The scheduler has put it there.
    Bound(String),
    /// It was created with a `nodeName`, or that cannot be ruled out: no scheduler was asked, and none
    /// will be for the next such pod.
    Pinned(String),
}

/// A term of node affinity: all of it has to hold. An empty one holds nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// On the node's labels.
    pub labels: Vec<Requirement>,
    /// On the node's fields: `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// What a label, or a field, has to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// Its key.
    pub key: String,
    /// What is required of it.
    pub operator: Operator,
}

/// What is required of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// It is there and one of these.
    In(BTreeSet<String>),
    /// It is none of these, or not there.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// It is there and a greater number (nodes only).
    Greater(i64),
    /// It is there and a smaller number (nodes only).
    Less(i64),
}

/// A term of required pod anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AntiAffinity {
    /// The label of nodes that tells the places apart.
    pub topology_key: String,
    /// Which pods by their labels, all of it; `None` selects none, an empty list all.
    pub selector: Option<Vec<Requirement>>,
    /// In which namespaces.
    pub namespaces: Namespaces,
}

/// The namespaces of an anti-affinity. One that is selected by labels that are not known is not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// The pod's own.
    #[default]
    Own,
    /// These.
    Listed(BTreeSet<String>),
    /// All.
    All,
}
