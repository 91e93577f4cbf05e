//! The page of this node: its host IDs, its pods with their plans, and the last proof.

mod proof;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::node::Node;
use agent::Agent;
use kubelet_api::{Document, Page};
use report::html;
use report::pages::{IdSpace, NodePage, NodePod};

use crate::reconcile::WaitingPods;
use proof::Proofs;

/// For how long the collected data serves all requests.
const FRESH: Duration = Duration::from_secs(1);

/// Collects the data of the page when it is asked for.
pub(crate) struct NodePages {
    /// The node's name.
    name: String,
    node: Node,
    /// Set once the agent runs: the page is served before.
    agent: OnceLock<Agent>,
    waiting: WaitingPods,
    proofs: Arc<Proofs>,
    kept: Mutex<Option<Kept>>,
}

/// What was collected last.
struct Kept {
    at: Instant,
    page: Arc<NodePage>,
}

impl NodePages {
    /// The page of the node of this name. `waiting` are the pods that cannot be started.
    pub(crate) fn new(name: String, node: Node, waiting: WaitingPods) -> Self {
        let proofs = Arc::new(Proofs::of(&node));
        Self { name, node, agent: OnceLock::new(), waiting, proofs, kept: Mutex::default() }
    }

    /// The agent runs from now on.
    pub(crate) fn set_agent(&self, agent: Agent) {
        // A second one would be another agent of the same node: the first stays.
        let _ = self.agent.set(agent);
    }

    fn current(&self) -> Arc<NodePage> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            return Arc::clone(&known.page);
        }
        let next = Arc::new(following(self.collect(), kept.as_ref().map(|known| &*known.page)));
        *kept = Some(Kept { at: Instant::now(), page: Arc::clone(&next) });
        next
    }

    fn collect(&self) -> NodePage {
        let running = self.agent.get().map(Agent::pods).unwrap_or_default();
        let mut pods: Vec<NodePod> = running.iter().map(NodePod::from).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        let names =
            pods.iter().map(|pod| (pod.uid.clone(), format!("{}/{}", pod.namespace, pod.name))).collect();
        let (proof, others) = self.proofs.last();
        let (ids, problem) = match self.ids(&names) {
            Ok(ids) => (ids.with_others(&others), None),
            Err(problem) => (IdSpace::default(), Some(problem)),
        };
        NodePage {
            node: self.name.clone(),
            ids,
            pods,
            waiting: self.waiting.list(),
            proof,
            problems: problem.into_iter().collect(),
            ..NodePage::default()
        }
    }

    /// The host IDs, with the names of pods by their UIDs. The error is a sentence.
    fn ids(&self, names: &BTreeMap<String, String>) -> Result<IdSpace, String> {
        let agent = self.agent.get().ok_or("The agent has not started yet.")?;
        let pool = self.node.pool().map_err(|error| format!("The pool cannot be read: {error}."))?;
        let ledger = agent.ledger();
        let unread = |error: &dyn std::fmt::Display| format!("The ledger cannot be read: {error}.");
        let leases = ledger.list().map_err(|error| unread(&error))?;
        let counts = ledger.counts().map_err(|error| unread(&error))?;
        Ok(IdSpace::new(&pool, counts, &leases, names))
    }
}

impl Page for NodePages {
    fn document(&self, path: &str, query: &str) -> Option<Document> {
        let found = html::node::document(&self.current(), path, query)?;
        Some(Document { kind: found.kind, body: found.body, policy: found.policy })
    }
}

/// The page with its time and its revision: that of the page before, if it says the same.
fn following(page: NodePage, before: Option<&NodePage>) -> NodePage {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let revision = match before {
        // Not one that an earlier process has used.
        None => u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        Some(before) if is_same(&page, before) => before.revision,
        Some(before) => before.revision.saturating_add(1),
    };
    NodePage { taken: now.as_secs(), revision, ..page }
}

fn is_same(a: &NodePage, b: &NodePage) -> bool {
    (&a.node, &a.ids, &a.pods, &a.waiting, &a.proof, &a.problems)
        == (&b.node, &b.ids, &b.pods, &b.waiting, &b.proof, &b.problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_says_the_same_has_the_same_revision() {
        let page = |problem: &str| NodePage { problems: vec![problem.to_owned()], ..NodePage::default() };
        let first = following(page("a"), None);
        let same = following(page("a"), Some(&first));
        let other = following(page("b"), Some(&same));
        assert_eq!((same.revision, other.revision), (first.revision, first.revision + 1));
        assert!(first.revision > 1_600_000_000_000 && first.taken > 1_600_000_000);
    }
}
