//! The Node as it was last seen, by whichever request or watch saw it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;

/// Publishes the newest version of the Node.
#[derive(Debug, Clone)]
pub(super) struct Seen(Arc<watch::Sender<Option<Arc<Node>>>>);

impl Seen {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.0.subscribe()
    }

    pub(super) fn current(&self) -> Option<Arc<Node>> {
        self.0.borrow().clone()
    }

    /// Takes a version of the Node, unless a newer one is known: answers and events may overtake each other.
    pub(super) fn saw(&self, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        self.0.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| is_newer(&node, known));
            if newer {
                *known = Some(Arc::clone(&node));
            }
            newer
        });
        node
    }

    /// Takes the Node from a list, whatever was known: after a restore of etcd its version may be an older number.
    pub(super) fn listed(&self, node: Node) {
        self.0.send_replace(Some(Arc::new(node)));
    }

    /// The Node does not exist any more.
    pub(super) fn gone(&self) {
        self.0.send_if_modified(|known| known.take().is_some());
    }
}

/// Resource versions of one resource are numbers that grow.
fn is_newer(node: &Node, known: &Node) -> bool {
    let version = |node: &Node| node.metadata.resource_version.as_ref()?.parse::<u64>().ok();
    match (version(node), version(known)) {
        (Some(new), Some(old)) => new > old,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(version: &str) -> Node {
        let mut node = Node::default();
        node.metadata.resource_version = Some(version.to_owned());
        node
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let seen = Seen::new();
        let version = || seen.current().and_then(|node| node.metadata.resource_version.clone());
        seen.saw(node("9"));
        seen.saw(node("10"));
        seen.saw(node("9"));
        assert_eq!(version().as_deref(), Some("10"));
        seen.listed(node("3"));
        assert_eq!(version().as_deref(), Some("3"));
        seen.gone();
        assert_eq!(version(), None);
    }
}
