//! What decides where a pod can go, and what can be proven from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::placement::{AntiAffinity, Node, NodeTerm, Operator, Placement};

/// A pod's labels, in the order of their keys.
pub(crate) type PodLabels = [(Arc<str>, Arc<str>)];

/// What decides where a pod can go.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Steering {
    /// Whether the default scheduler places it and its successors, which keeps to the rest.
    pub(crate) ruled: bool,
    /// The kinds of nodes it can go to: one of these. Each combines the selector with a term.
    terms: Vec<Term>,
    pub(crate) anti_affinity: Vec<AntiAffinity>,
}

type Term = BTreeMap<Place, Vec<Operator>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Label(String),
    Field(String),
}

const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// The one label that every kubelet gives its own node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl Steering {
    /// Whether the default scheduler can put it anywhere, as it can most pods.
    pub(crate) fn is_free(placement: &Placement) -> bool {
        placement.scheduler.is_none()
            && placement.owner_kind.is_none()
            && placement.node_selector.is_empty()
            && placement.node_terms.is_none()
            && placement.anti_affinity.is_empty()
            && !matches!(placement.node, Node::Pinned(_))
    }

    pub(crate) fn of(placement: &Placement) -> Self {
        let usual = placement.scheduler.as_deref().is_none_or(|s| s.is_empty() || s == DEFAULT_SCHEDULER);
        let everywhere = matches!(placement.owner_kind.as_deref(), Some("DaemonSet" | "Node"));
        let pinned = matches!(placement.node, Node::Pinned(_));
        Self {
            ruled: usual && !everywhere && !pinned,
            terms: terms(placement),
            anti_affinity: placement.anti_affinity.clone(),
        }
    }

    /// Whether no node can be of a kind that both can go to.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.terms.iter().all(|a| other.terms.iter().all(|b| contradict(a, b)))
    }

    /// Whether every node that both can go to has one of these labels.
    pub(crate) fn meet_only_with(&self, other: &Self, labels: &[&str]) -> bool {
        let has = |term: &Term| {
            labels.iter().any(|&label| {
                let all = term.get(&Place::Label(label.to_owned()));
                all.is_some_and(|all| all.iter().any(needs_presence))
            })
        };
        self.terms.iter().all(|a| other.terms.iter().all(|b| has(a) || has(b) || contradict(a, b)))
    }
}

fn terms(placement: &Placement) -> Vec<Term> {
    let mut selector = Term::new();
    for (key, value) in &placement.node_selector {
        let only = Operator::In([value.clone()].into());
        selector.entry(Place::Label(key.clone())).or_default().push(only);
    }
    let Some(terms) = &placement.node_terms else { return vec![selector] };
    let full = terms.iter().filter(|t| !t.labels.is_empty() || !t.fields.is_empty());
    full.map(|term| combined(&selector, term)).collect()
}

fn combined(selector: &Term, term: &NodeTerm) -> Term {
    let mut all = selector.clone();
    let labels = term.labels.iter().map(|r| (Place::Label(r.key.clone()), &r.operator));
    let fields = term.fields.iter().map(|r| (Place::Field(r.key.clone()), &r.operator));
    for (place, operator) in labels.chain(fields) {
        all.entry(place).or_default().push(operator.clone());
    }
    all
}

fn contradict(a: &Term, b: &Term) -> bool {
    a.keys().chain(b.keys()).any(|place| {
        let all: Vec<_> = [a, b].iter().filter_map(|t| t.get(place)).flatten().collect();
        impossible(&all)
    })
}

/// Whether no label, nor its absence, can be all of this. `false` where that is not certain.
fn impossible(all: &[&Operator]) -> bool {
    let listed = all.iter().find_map(|o| if let Operator::In(values) = o { Some(values) } else { None });
    if let Some(values) = listed {
        return !values.iter().any(|v| all.iter().all(|o| holds(o, Some(v))));
    }
    if all.iter().all(|o| holds(o, None)) {
        return false;
    }
    let low = all.iter().filter_map(|o| if let Operator::Greater(n) = o { Some(*n) } else { None }).max();
    let high = all.iter().filter_map(|o| if let Operator::Less(n) = o { Some(*n) } else { None }).min();
    let empty = match (low, high) {
        (Some(low), Some(high)) => low.checked_add(1).is_none_or(|next| next >= high),
        (Some(low), None) => low == i64::MAX,
        (None, Some(high)) => high == i64::MIN,
        (None, None) => false,
    };
    empty || all.iter().any(|o| matches!(o, Operator::DoesNotExist))
}

fn needs_presence(operator: &Operator) -> bool {
    !holds(operator, None)
}

/// Whether a label of this value, or its absence, is what the operator asks for.
pub(crate) fn holds(operator: &Operator, value: Option<&str>) -> bool {
    let number = || value.and_then(|v| v.parse::<i64>().ok());
    match operator {
        Operator::In(values) => value.is_some_and(|v| values.contains(v)),
        Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Greater(limit) => number().is_some_and(|n| n > *limit),
        Operator::Less(limit) => number().is_some_and(|n| n < *limit),
    }
}
