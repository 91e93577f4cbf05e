use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ids::UserNamespace;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::status::PodStatus;
use crate::store::Place;
use crate::teardown;
use crate::tended::Tended;
use crate::ward::Ward;
use crate::worker::Order;

/// Tells whoever looks after a pod what to do. Clones tell the same.
#[derive(Clone)]
pub struct Orders(pub(crate) mpsc::Sender<Order>);

impl Orders {
    /// Ends it, within `grace` if that is less than its own.
    pub async fn stop(&self, grace: Option<Duration>) {
        // Whoever does not listen any more has ended.
        let _ = self.0.send(Order::Stop(grace)).await;
    }

    /// The objects that it names may be others now.
    pub async fn refresh(&self) {
        let _ = self.0.send(Order::Refresh).await;
    }
}

/// A pod that is looked after. Dropped, it is looked after all the same, as long as the process lives.
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ward: Arc<Ward>,
    pub(crate) place: Place,
    pub(crate) orders: Orders,
    pub(crate) said: watch::Receiver<Option<PodStatus>>,
    pub(crate) task: Option<JoinHandle<(PodStatus, Tended)>>,
    pub(crate) tended: Option<Tended>,
}

impl Handle {
    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.ward.uid.as_str()
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.ward.namespace
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.ward.name
    }

    /// `namespace/name`.
    #[must_use]
    pub fn title(&self) -> String {
        self.ward.title()
    }

    /// Its host IDs.
    #[must_use]
    pub fn users(&self) -> &UserNamespace {
        &self.ward.users
    }

    /// Where its containers' logs are, a directory for each.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.place.logs
    }

    /// Its containers, init containers first.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        self.ward.containers().map(|container| container.name.as_str())
    }

    /// What is said of it now, and whenever that changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Option<PodStatus>> {
        self.said.clone()
    }

    /// What it can be told, also while somebody waits for its end.
    #[must_use]
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Waits until nothing of it runs and nothing will.
    ///
    /// # Errors
    /// If whoever looked after it broke off.
    pub async fn ended(&mut self) -> Result<PodStatus> {
        if let Some(task) = &mut self.task {
            let (status, tended) = task.await.map_err(|_| Error::BrokeOff { what: "looking after a pod" })?;
            (self.task, self.tended) = (None, Some(tended));
            return Ok(status);
        }
        self.said.borrow().clone().ok_or(Error::BrokeOff { what: "looking after a pod" })
    }

    /// Removes everything of a pod that has ended; images stay.
    ///
    /// # Errors
    /// If something cannot be removed; asked again, what is left is.
    pub async fn remove(&mut self) -> Result<()> {
        self.ended().await?;
        teardown::all(&self.shared, &self.place).await?;
        self.shared.bells.forget(self.ward.uid.as_str());
        self.tended = None;
        Ok(())
    }
}
