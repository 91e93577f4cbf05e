//! The runtime that was named, or the built-in one: in this process, on its socket, so that `exec` and crictl
//! reach it too; where another process serves there already, that one.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use ::runtime::{Runtime, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wire::Endpoint;
use wire::client::Client;
use wire::server::Claim;

use crate::failure::Failure;

/// How long the built-in runtime may take to answer once it serves.
const PATIENCE: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A runtime that answers.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) endpoint: Endpoint,
    own: Option<Own>,
}

struct Own {
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<::runtime::Result<()>>,
}

impl From<wire::Error> for Failure {
    fn from(e: wire::Error) -> Self {
        let hint = e.hint();
        Self::unknown(e.to_string()).with_hint(hint)
    }
}

/// Where the built-in runtime is served.
pub(crate) fn own_endpoint(run_dir: &Path) -> Result<Endpoint, Failure> {
    let dir =
        std::path::absolute(run_dir).map_err(|e| Failure::unknown(format!("{}: {e}", run_dir.display())))?;
    Ok(Endpoint::try_from(dir.join("cri.sock"))?)
}

fn make_dir(endpoint: &Endpoint) -> Result<(), Failure> {
    let dir = endpoint.socket().parent().unwrap_or(Path::new("/"));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", dir.display())))
}

impl Connected {
    /// To the runtime that listens there.
    pub(crate) async fn to(endpoint: Endpoint) -> Result<Self, Failure> {
        Ok(Self { client: Client::connect(&endpoint).await?, endpoint, own: None })
    }

    /// To the built-in runtime, which is started if nobody serves it.
    pub(crate) async fn built_in(endpoint: Endpoint, settings: Settings) -> Result<Self, Failure> {
        if let Ok(client) = Client::connect(&endpoint).await {
            return Ok(Self { client, endpoint, own: None });
        }
        make_dir(&endpoint)?;
        // Before anything is touched: another may be about to serve.
        let claim = Claim::take(&endpoint).await?;
        let runtime = Runtime::open(settings).await?;
        let (shutdown, told) = oneshot::channel();
        let task = tokio::spawn(async move {
            let until = async {
                let _ = told.await;
            };
            runtime.serve(claim, until).await
        });
        for _ in 0..PATIENCE {
            if let Ok(client) = Client::connect(&endpoint).await {
                return Ok(Self { client, endpoint, own: Some(Own { shutdown, task }) });
            }
            if task.is_finished() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        drop(shutdown);
        let ended = task.await.map_err(|e| Failure::unknown(format!("the runtime broke off: {e}")))?;
        ended?;
        Err(Failure::unknown(format!("{endpoint}: the runtime does not answer")))
    }

    /// Ends the runtime if it is ours. Pods that run go on.
    pub(crate) async fn end(self) {
        drop(self.client);
        if let Some(Own { shutdown, task }) = self.own {
            let _ = shutdown.send(());
            // Connections that are still held keep it; nobody waits for them for ever.
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
    }
}
