use std::future::Future;
use std::sync::Arc;

use cri::server::{Claim, Listener, Services};
use tracing::info;

use crate::error::{Error, Result};
use crate::image_service::{ImageServer, ImageSettings};
use crate::node::Node;
use crate::recover;
use crate::settings::Settings;
use crate::streams::Served;

/// The CRI server's implementation of both services. Clones share the same pods.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) node: Arc<Node>,
}

impl Runtime {
    /// Takes over what the last server left. Pods that run go on meanwhile.
    ///
    /// # Errors
    /// If another server holds the lock of a directory, or a directory cannot be used.
    pub async fn open(settings: Settings) -> Result<Self> {
        let address = settings.streaming;
        let node = Node::open(settings).await?;
        let streams = streaming::Server::bind(address, Arc::new(Served(Arc::downgrade(&node)))).await?;
        if node.streams.set(streams).is_err() {
            return Err(Error::NotOffered { what: "a second server of streams" });
        }
        recover::recover(&node).await?;
        Ok(Self { node })
    }

    /// The runtime service and the image service.
    #[must_use]
    pub fn services(&self) -> Services<Self, ImageServer> {
        let settings = ImageSettings {
            remote: self.node.settings.remote.clone(),
            containers: self.node.layout.container_states(),
            written: Arc::clone(&self.node.written),
            ..ImageSettings::default()
        };
        Services { runtime: self.clone(), images: ImageServer::new(Arc::clone(&self.node.images), settings) }
    }

    /// Serves on a socket until `shutdown` is done. Pods go on. The claim is taken before [`Runtime::open`], so
    /// that nothing is touched by a server that cannot serve.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub async fn serve(self, claim: Claim, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.serve_on(claim.listen()?, shutdown).await
    }

    /// Serves CRI on a listener that clients can already connect to.
    ///
    /// # Errors
    /// If the transport fails.
    pub async fn serve_on(self, listener: Listener, shutdown: impl Future<Output = ()>) -> Result<()> {
        info!("serving on unix://{}", listener.socket().display());
        let ending = self.clone();
        let until = async move {
            shutdown.await;
            ending.end();
        };
        Ok(listener.serve(self.services(), until).await?)
    }

    /// Ends all event streams, so that a graceful shutdown, which waits for running calls, can finish.
    pub fn end(&self) {
        self.node.events.close();
    }
}
