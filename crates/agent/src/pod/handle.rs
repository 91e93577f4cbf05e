use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ids::UserNamespace;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::housekeeping::teardown::{self, Block};
use crate::metrics::observed::ObservedPod;
use crate::pod::context::PodContext;
use crate::pod::lock::PodLock;
use crate::pod::orders::Orders;
use crate::pod::spec::grace;
use crate::pod::store::Place;
use crate::shared::Shared;
use crate::status::view::PodStatus;

/// A pod that this process manages. The pod's worker continues when the handle is dropped, until the process
/// ends.
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: Arc<PodContext>,
    pub(crate) place: Place,
    pub(crate) observed: Arc<ObservedPod>,
    pub(crate) orders: Orders,
    pub(crate) said: watch::Receiver<Option<PodStatus>>,
    /// Whether an earlier process started it.
    pub(crate) is_adopted: bool,
    pub(crate) task: Option<JoinHandle<(PodStatus, PodLock)>>,
    pub(crate) lock: Option<PodLock>,
}

impl Handle {
    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.context.uid.as_str()
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.context.namespace
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// `namespace/name`.
    #[must_use]
    pub fn title(&self) -> String {
        self.context.title()
    }

    /// Whether an earlier process started it.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// How long its containers may take to end after SIGTERM.
    #[must_use]
    pub fn grace(&self) -> Duration {
        grace(&self.context.spec)
    }

    /// Its host IDs.
    #[must_use]
    pub fn users(&self) -> &UserNamespace {
        &self.context.users
    }

    /// The directory of its logs, with a directory for each container.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.place.logs
    }

    /// Its containers, init containers first.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        self.context.containers().map(|container| container.name.as_str())
    }

    /// A receiver of the pod's status; `None` until the first one is known.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Option<PodStatus>> {
        self.said.clone()
    }

    /// A sender of orders to the pod's worker. It can be used while a caller waits in [`Self::ended`].
    #[must_use]
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Waits until the pod has terminated: no container runs, and none will be started.
    ///
    /// # Errors
    /// [`Error::BrokeOff`] if the pod's worker panicked or was cancelled.
    pub async fn ended(&mut self) -> Result<PodStatus> {
        if let Some(task) = &mut self.task {
            let (status, lock) = task.await.map_err(|_| Error::BrokeOff { what: "supervising a pod" })?;
            (self.task, self.lock) = (None, Some(lock));
            return Ok(status);
        }
        self.said.borrow().clone().ok_or(Error::BrokeOff { what: "supervising a pod" })
    }

    /// Waits for the pod's end, then removes its containers, sandboxes and volumes and releases its host IDs, which are free
    /// once a census has found that nothing uses them. Its record, status and logs stay.
    ///
    /// # Errors
    /// If one of them cannot be removed. The call can be repeated: it removes the rest.
    pub async fn release(&mut self) -> Result<()> {
        self.ended().await?;
        teardown::users_of_ended(&self.shared, &self.place).await?;
        self.observed.is_removed();
        Ok(())
    }

    /// Waits for the pod's end, then removes its containers, sandboxes, volumes, logs, lease and record.
    /// Images are kept.
    ///
    /// # Errors
    /// If one of them cannot be removed. The call can be repeated: it removes the rest.
    pub async fn remove(&mut self) -> Result<()> {
        self.ended().await?;
        teardown::all(&self.shared, &self.place, Block::Settled).await?;
        self.observed.is_removed();
        self.shared.notifier.forget(self.context.uid.as_str());
        self.shared.running.forget(&self.context.reference());
        self.lock = None;
        Ok(())
    }
}
