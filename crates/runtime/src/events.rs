//! Events of sandboxes and containers, published to subscribers.

use std::sync::{Arc, Mutex};

use cri::Status;
use cri::{ContainerEventResponse, ContainerEventType};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::id::Id;
use crate::store::{Sandbox, Store, locked};
use crate::view;
use crate::work::now;

/// A subscriber that is further behind than this must list the containers again.
const WAITING: usize = 1024;

/// All listeners.
#[derive(Debug)]
pub(crate) struct Events(Mutex<Option<broadcast::Sender<Arc<ContainerEventResponse>>>>);

/// What one listener gets.
pub(crate) type EventStream = ReceiverStream<Result<ContainerEventResponse, Status>>;

impl Default for Events {
    fn default() -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(WAITING))))
    }
}

impl Events {
    /// From now on.
    pub(crate) fn listen(&self) -> EventStream {
        let (to_client, stream) = mpsc::channel(16);
        if let Some(mut events) = locked(&self.0).as_ref().map(broadcast::Sender::subscribe) {
            tokio::spawn(async move {
                loop {
                    let told = match events.recv().await {
                        Ok(event) => Ok((*event).clone()),
                        Err(broadcast::error::RecvError::Closed) => return,
                        Err(broadcast::error::RecvError::Lagged(missed)) => {
                            Err(Status::data_loss(format!("{missed} events were not taken in time")))
                        }
                    };
                    let over = told.is_err();
                    if to_client.send(told).await.is_err() || over {
                        return;
                    }
                }
            });
        }
        ReceiverStream::new(stream)
    }

    /// No more: every stream ends.
    pub(crate) fn close(&self) {
        locked(&self.0).take();
    }

    /// Tells that something happened to `what`, a sandbox or one of its containers.
    pub(crate) fn publish(&self, store: &Store, kind: ContainerEventType, what: &Id, sandbox: &Sandbox) {
        let containers = store.containers_of(&sandbox.id);
        let event = ContainerEventResponse {
            container_id: what.to_string(),
            container_event_type: kind.into(),
            created_at: now(),
            pod_sandbox_status: Some(view::sandbox_status(sandbox)),
            containers_statuses: containers
                .iter()
                .map(|container| view::container_status(container))
                .collect(),
        };
        if let Some(listeners) = locked(&self.0).as_ref() {
            // Without a listener the event is lost, as it should be.
            let _ = listeners.send(Arc::new(event));
        }
    }
}
