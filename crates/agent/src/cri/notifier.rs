//! The pod notifier: forwards container events of the runtime to the workers of their pods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cri::GetEventsRequest;
use cri::client::Client;
use tokio::sync::Notify;

/// Pause before the event stream is requested again.
const AGAIN: Duration = Duration::from_secs(1);

/// The wake-ups of all pods: a worker is notified when the runtime reports an event of its pod (the kubelet's PLEG).
#[derive(Debug, Default)]
pub(crate) struct PodNotifier {
    pods: Mutex<HashMap<String, Arc<Notify>>>,
    /// Whether the runtime's event stream is open.
    has_events: AtomicBool,
}

impl PodNotifier {
    pub(crate) fn of(&self, uid: &str) -> Arc<Notify> {
        let mut pods = self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(pods.entry(uid.to_owned()).or_default())
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(uid);
    }

    pub(crate) fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    fn notify(&self, uid: Option<&str>) {
        let pods = self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match uid {
            Some(uid) => pods.get(uid).into_iter().for_each(|wakeup| wakeup.notify_one()),
            None => pods.values().for_each(|wakeup| wakeup.notify_one()),
        }
    }

    /// Notifies workers of the runtime's events until the notifier is dropped.
    pub(crate) async fn listen(notifier: std::sync::Weak<Self>, client: Client) {
        loop {
            if let Ok(answer) = client.runtime().get_container_events(GetEventsRequest {}).await {
                let mut events = answer.into_inner();
                let Some(held) = notifier.upgrade() else { return };
                held.has_events.store(true, Ordering::Relaxed);
                // The stream has no events from before it was opened: all workers relist.
                held.notify(None);
                drop(held);
                while let Ok(Some(event)) = events.message().await {
                    let Some(held) = notifier.upgrade() else { return };
                    let metadata = event.pod_sandbox_status.and_then(|status| status.metadata);
                    held.notify(metadata.as_ref().map(|m| m.uid.as_str()));
                }
            }
            let Some(held) = notifier.upgrade() else { return };
            held.has_events.store(false, Ordering::Relaxed);
            held.notify(None);
            drop(held);
            tokio::time::sleep(AGAIN).await;
        }
    }
}
