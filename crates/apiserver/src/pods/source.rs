//! The watch of this node's pods as a source of pods.

use std::ops::ControlFlow;
use std::sync::Arc;

use agent::ports::{BoxFuture, PodSource};
use kube::{Api, Client};
use kube_runtime::watcher::Config;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::follow::{Followed, follow};
use crate::pods::set::{PodSet, PodsView};
use crate::pods::store::PodStore;
use crate::raw::{RawObject, core};

/// The server ends a watch after so many seconds, and a new one is begun: a connection that has silently died is noticed
/// soon after that.
const WATCH_SECONDS: u32 = 60;

/// Watches the pods that are bound to this node. Each set that it delivers is complete. While the API server cannot be
/// reached, it delivers none. The watch ends when this value is dropped.
#[derive(Debug)]
pub struct PodWatch {
    sets: watch::Receiver<Option<Arc<PodSet>>>,
    is_first: bool,
    task: AbortHandle,
}

impl PodWatch {
    /// Starts to watch the pods of this node. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(client: Client, node: &str) -> Self {
        let (sender, sets) = watch::channel(None);
        let config = Config::default().fields(&format!("spec.nodeName={node}")).timeout(WATCH_SECONDS);
        let title = format!("the pods of node {node}");
        let task = tokio::spawn(async move {
            let mut store = PodStore::default();
            let api = Api::<RawObject>::all_with(client, &core("Pod", "pods"));
            follow(api, config, &title, |followed| {
                if let Followed::Event(event) = followed
                    && let Some(set) = store.apply(event)
                {
                    sender.send_replace(Some(Arc::new(set)));
                }
                ControlFlow::Continue(())
            })
            .await;
        });
        Self { sets, is_first: true, task: task.abort_handle() }
    }

    /// The newest set, for other tasks. It does not change what [`PodSource::next`] returns.
    #[must_use]
    pub fn view(&self) -> PodsView {
        PodsView(self.sets.clone())
    }

    /// Whether a complete set has been seen. Until then nothing may be removed because it is not in the set.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.sets.borrow().is_some()
    }
}

impl PodSource for PodWatch {
    type Set = Arc<PodSet>;

    fn next(&mut self) -> BoxFuture<'_, Option<Arc<PodSet>>> {
        Box::pin(async move {
            loop {
                if !self.is_first || self.sets.borrow().is_none() {
                    self.sets.changed().await.ok()?;
                }
                if let Some(set) = self.sets.borrow_and_update().clone() {
                    self.is_first = false;
                    return Some(set);
                }
            }
        })
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
