use std::future::Future;
use std::sync::Arc;

use wire::server::{Claim, Listener, Services};

use crate::error::{Error, Result};
use crate::image_service::{ImageServer, ImageSettings};
use crate::node::Node;
use crate::recover;
use crate::settings::Settings;
use crate::streams::Served;

/// The runtime, ready to answer. Clones answer for the same pods.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) node: Arc<Node>,
}

impl Runtime {
    /// Takes over what the last server left. Pods that run go on meanwhile.
    ///
    /// # Errors
    /// If another server is at work, or the directories cannot be used.
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

    /// Both services.
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
    /// If the socket cannot be had.
    pub async fn serve(self, claim: Claim, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.serve_on(claim.listen()?, shutdown).await
    }

    /// The same on a socket that whoever asks can already connect to.
    ///
    /// # Errors
    /// If the transport fails.
    pub async fn serve_on(self, listener: Listener, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.node.tell(&format!("serving on unix://{}", listener.socket().display()));
        let ending = self.clone();
        let until = async move {
            shutdown.await;
            ending.end();
        };
        Ok(listener.serve(self.services(), until).await?)
    }

    /// Ends every stream of events, so that a server that waits for its calls can end.
    pub fn end(&self) {
        self.node.events.close();
    }
}
