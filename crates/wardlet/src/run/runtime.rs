//! The runtime that was named, or the built-in one: in this process, on its socket, so that `exec` and crictl
//! reach it too; where another process serves there already, that one.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use ::runtime::{Runtime, Settings};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::Endpoint;
use wire::client::Client;
use wire::server::Claim;

use crate::failure::Failure;
use crate::words;

/// How long the built-in runtime may take to answer once it serves.
const PATIENCE: u32 = 5000;
/// Between two looks at a server of another process that is about to serve.
const PAUSE: Duration = Duration::from_millis(2);
/// How soon it is noticed that nobody serves any more.
const WATCH: Duration = Duration::from_millis(500);

/// A runtime that answers.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) endpoint: Endpoint,
    own: Option<Own>,
}

struct Own {
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl From<wire::CallError> for Failure {
    fn from(e: wire::CallError) -> Self {
        let failure = Self::unknown(e.to_string());
        match e.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
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

/// The runtime that is meant.
pub(crate) enum Which {
    /// Whoever listens there.
    Named(Endpoint),
    /// Our own, served there.
    BuiltIn(Endpoint, Box<Settings>),
}

impl Which {
    pub(crate) async fn connect(self) -> Result<Connected, Failure> {
        match self {
            Self::Named(endpoint) => Connected::to(endpoint).await,
            Self::BuiltIn(endpoint, settings) => Connected::built_in(endpoint, *settings).await,
        }
    }
}

impl Connected {
    /// To the runtime that listens there.
    async fn to(endpoint: Endpoint) -> Result<Self, Failure> {
        Ok(Self { client: Client::connect(&endpoint).await?, endpoint, own: None })
    }

    /// To the built-in runtime, which is served by us whenever nobody else does: the process that serves now
    /// may end before ours.
    async fn built_in(endpoint: Endpoint, settings: Settings) -> Result<Self, Failure> {
        make_dir(&endpoint)?;
        let (shutdown, told) = watch::channel(false);
        let mut keeper = Keeper { endpoint: endpoint.clone(), settings, told, serving: None };
        for _ in 0..PATIENCE {
            if let Ok(client) = Client::connect(&endpoint).await {
                let task = tokio::spawn(keeper.keep());
                return Ok(Self { client, endpoint, own: Some(Own { shutdown, task }) });
            }
            if keeper.step().await? == Step::Waits {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(Failure::unknown(format!("{endpoint}: the runtime does not answer")))
    }

    /// Ends the runtime if it is ours. Pods that run go on.
    pub(crate) async fn end(self) {
        drop(self.client);
        if let Some(Own { shutdown, task }) = self.own {
            let _ = shutdown.send(true);
            // Connections that are still held keep it; nobody waits for them for ever.
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
    }
}

/// Serves the built-in runtime while nobody else does.
struct Keeper {
    endpoint: Endpoint,
    settings: Settings,
    /// Whether to end.
    told: watch::Receiver<bool>,
    serving: Option<JoinHandle<::runtime::Result<()>>>,
}

/// What has come of an attempt to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Whoever connects now is taken on.
    Serves,
    /// Somebody else is about to serve.
    Waits,
}

impl Keeper {
    /// Until told to end.
    async fn keep(mut self) {
        let mut told = self.told.clone();
        loop {
            if tokio::time::timeout(WATCH, told.wait_for(|is_told| *is_told)).await.is_ok() {
                break;
            }
            let is_served = tokio::net::UnixStream::connect(self.endpoint.socket()).await.is_ok();
            if !is_served && let Err(failure) = self.step().await {
                words::warning(&format!("the runtime cannot be served: {}", failure.message()));
            }
        }
        if let Some(serving) = self.serving {
            let _ = serving.await;
        }
    }

    /// Begins to serve, unless somebody else is about to, or we are.
    async fn step(&mut self) -> Result<Step, Failure> {
        if let Some(serving) = self.serving.take_if(|serving| serving.is_finished()) {
            serving.await.map_err(|e| Failure::unknown(format!("the runtime broke off: {e}")))??;
        }
        if self.serving.is_some() {
            return Ok(Step::Waits);
        }
        // Before anything is touched.
        let claim = match Claim::take(&self.endpoint).await {
            Err(wire::Error::Taken { .. }) => return Ok(Step::Waits),
            claim => claim?,
        };
        let runtime = Runtime::open(self.settings.clone()).await?;
        let listener = claim.listen()?;
        let mut told = self.told.clone();
        self.serving = Some(tokio::spawn(async move {
            let until = async {
                // Whoever would tell us is gone: the same.
                let _ = told.wait_for(|is_told| *is_told).await;
            };
            runtime.serve_on(listener, until).await
        }));
        Ok(Step::Serves)
    }
}
