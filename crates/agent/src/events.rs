//! Who is woken when the runtime says that something happened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use wire::client::Client;
use wire::cri::GetEventsRequest;

/// How long to wait before the stream of events is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// The bells of all pods.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    pods: Mutex<HashMap<String, Arc<Notify>>>,
    /// Whether the runtime tells us of what happens.
    is_told: AtomicBool,
}

impl Bells {
    pub(crate) fn of(&self, uid: &str) -> Arc<Notify> {
        let mut pods = self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(pods.entry(uid.to_owned()).or_default())
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(uid);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    fn ring(&self, uid: Option<&str>) {
        let pods = self.pods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match uid {
            Some(uid) => pods.get(uid).into_iter().for_each(|bell| bell.notify_one()),
            None => pods.values().for_each(|bell| bell.notify_one()),
        }
    }

    /// Rings for as long as anybody holds the bells.
    pub(crate) async fn listen(bells: std::sync::Weak<Self>, client: Client) {
        loop {
            if let Ok(answer) = client.runtime().get_container_events(GetEventsRequest {}).await {
                let mut events = answer.into_inner();
                let Some(held) = bells.upgrade() else { return };
                held.is_told.store(true, Ordering::Relaxed);
                // What happened before is not told.
                held.ring(None);
                drop(held);
                while let Ok(Some(event)) = events.message().await {
                    let Some(held) = bells.upgrade() else { return };
                    let metadata = event.pod_sandbox_status.and_then(|status| status.metadata);
                    held.ring(metadata.as_ref().map(|m| m.uid.as_str()));
                }
            }
            let Some(held) = bells.upgrade() else { return };
            held.is_told.store(false, Ordering::Relaxed);
            held.ring(None);
            drop(held);
            tokio::time::sleep(AGAIN).await;
        }
    }
}
