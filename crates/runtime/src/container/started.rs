use cri::ContainerEventType;
use monitor::Started;
use tracing::info;

use super::called;
use crate::container_state::ContainerState;
use crate::node::Node;
use crate::store::{Container, Sandbox};

/// Has it run from now on, and tells so, unless it is known already that it does or did. In its turn.
pub(super) fn begin(node: &Node, sandbox: &Sandbox, container: &Container, started: Started) {
    let is_news = container.state.send_if_modified(|life| {
        let begins = *life == ContainerState::Created;
        if begins {
            *life = ContainerState::Running(started);
        }
        begins
    });
    if is_news {
        info!(parent: &sandbox.span, container = %container.id, "{} is started", called(container));
        node.events.publish(&node.store, ContainerEventType::ContainerStartedEvent, &container.id, sandbox);
    }
}
