//! A connection to the runtime that the caller names, or to the built-in one. The built-in runtime is served in this
//! process and on its socket, so that other commands and crictl reach it too; where another process serves there
//! already, the connection is to that one.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cri::Endpoint;
use cri::client::Client;
use cri::server::Claim;
use network::{CNI_BIN_DIRS, CNI_CONF_DIR, Kind};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tracing::warn;

use crate::error::Error;
use crate::files;
use crate::server::Runtime;
use crate::settings::Settings;

/// How long the built-in runtime may take to answer once it serves.
const PATIENCE: u32 = 5000;
/// Between two looks at a server of another process that is about to serve.
const PAUSE: Duration = Duration::from_millis(2);
/// How soon it is noticed that no process serves any more.
const WATCH: Duration = Duration::from_millis(500);

/// The log's target of what a program that connects tells its user, whatever it shows of the runtime's own events.
const TARGET: &str = "wardlet";

/// Why a connection to a CRI runtime failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket cannot be used, or the runtime behind it does not answer.
    #[error(transparent)]
    Cri(#[from] cri::Error),
    /// The built-in runtime cannot be opened or served.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// The path of the run directory cannot be made absolute.
    #[error("{}: {cause}", path.display())]
    Path {
        /// The path as it was given.
        path: PathBuf,
        /// The cause that the system gave.
        cause: io::Error,
    },
    /// The built-in runtime is served, but does not answer.
    #[error("{endpoint}: the runtime does not answer")]
    NoAnswer {
        /// Its socket.
        endpoint: Endpoint,
    },
    /// The task that serves the built-in runtime panicked or was cancelled.
    #[error("the runtime broke off: {0}")]
    Task(JoinError),
}

impl ConnectError {
    /// What an administrator can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cri(error) => Some(error.hint().to_owned()),
            Self::Runtime(error) => error.hint(),
            Self::Path { .. } | Self::NoAnswer { .. } | Self::Task(_) => None,
        }
    }
}

/// A connection to a runtime that answers. [`Connected::end`] ends the built-in runtime if this process serves it.
#[derive(Debug)]
pub struct Connected {
    /// The client of both CRI services.
    pub client: Client,
    /// The socket that the client is connected to.
    pub endpoint: Endpoint,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The socket on which the built-in runtime with this run directory is served.
///
/// # Errors
/// If the path cannot be made absolute, or is too long for a socket.
pub fn own_endpoint(run_dir: &Path) -> Result<Endpoint, ConnectError> {
    let failed = |cause| ConnectError::Path { path: run_dir.to_owned(), cause };
    let dir = std::path::absolute(run_dir).map_err(failed)?;
    Ok(Endpoint::try_from(dir.join("cri.sock"))?)
}

/// Takes a socket's path for a server, and makes its directory, for root alone, where there is none.
///
/// # Errors
/// If the directory cannot be made, another process serves there, or the path is something else.
pub async fn claim(endpoint: &Endpoint) -> Result<Claim, ConnectError> {
    Ok(Claim::take(&make_dir(endpoint)?).await?)
}

/// Makes the directory of the socket, for root alone, where no other user can put another socket or a link. Returns the
/// socket by its path without links.
fn make_dir(endpoint: &Endpoint) -> Result<Endpoint, ConnectError> {
    let socket = endpoint.socket();
    let dir = durable::make_owned_dirs(socket.parent().unwrap_or(Path::new("/")), 0o700);
    let dir = dir.map_err(cri::Error::from)?;
    Ok(Endpoint::try_from(dir.join(socket.file_name().unwrap_or_default()))?)
}

/// The runtime to connect to.
#[derive(Debug)]
pub enum Target {
    /// The runtime that listens on this socket.
    Named(Endpoint),
    /// The built-in runtime on this socket, with these settings where this process has to serve it.
    BuiltIn(Endpoint, Box<Settings>),
}

impl Target {
    /// For the pods of a node agent. With `cni`, pods of the built-in runtime get their network from CNI plugins; else, in a
    /// cluster, their addresses from the subnets that the cluster assigns to the node.
    #[must_use]
    pub fn of_node(self, in_cluster: bool, cni: bool) -> Self {
        let Self::BuiltIn(endpoint, mut settings) = self else { return self };
        if cni {
            let (conf_dir, bin_dirs) =
                (PathBuf::from(CNI_CONF_DIR), CNI_BIN_DIRS.map(PathBuf::from).to_vec());
            settings.network = Kind::Cni { conf_dir, bin_dirs };
        } else if in_cluster {
            settings.network = settings.network.of_cluster_node();
        }
        Self::BuiltIn(endpoint, settings)
    }

    /// Connects, and serves the built-in runtime if no other process does.
    ///
    /// # Errors
    /// If the runtime does not answer, or the built-in one cannot be served.
    pub async fn connect(self) -> Result<Connected, ConnectError> {
        match self {
            Self::Named(endpoint) => Connected::to(endpoint).await,
            Self::BuiltIn(endpoint, settings) => Connected::built_in(endpoint, *settings).await,
        }
    }
}

impl Connected {
    /// To the runtime that listens there.
    async fn to(endpoint: Endpoint) -> Result<Self, ConnectError> {
        Ok(Self { client: Client::connect(&endpoint).await?, endpoint, own: None })
    }

    /// To the built-in runtime, which this process serves whenever no other does: the process that serves now
    /// may end before this one.
    async fn built_in(endpoint: Endpoint, settings: Settings) -> Result<Self, ConnectError> {
        let endpoint = make_dir(&endpoint)?;
        let (shutdown, told) = watch::channel(false);
        let mut keeper = Keeper { endpoint: endpoint.clone(), settings, told, serving: None };
        for _ in 0..PATIENCE {
            if let Ok(client) = Client::connect_to_successors(&endpoint).await {
                let task = tokio::spawn(keeper.keep());
                return Ok(Self { client, endpoint, own: Some(Own { shutdown, task }) });
            }
            if keeper.step().await? == Step::Waits {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(ConnectError::NoAnswer { endpoint })
    }

    /// Whether pods can be isolated below the run directory of the built-in runtime. Other runtimes are not asked.
    ///
    /// # Errors
    /// If the root of a pod's user namespace cannot pass to it.
    pub fn check_isolation(&self) -> Result<(), ConnectError> {
        let run_dir = self.endpoint.socket().parent().filter(|_| self.own.is_some());
        Ok(run_dir.map_or(Ok(()), files::check_passable)?)
    }

    /// Closes the connection, and ends the runtime if this process serves it. Pods that run go on.
    pub async fn end(self) {
        drop(self.client);
        if let Some(Own { shutdown, task }) = self.own {
            let _ = shutdown.send(true);
            // Connections that are still open keep it; the wait for them has an end.
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
    }
}

/// Serves the built-in runtime while no other process does.
struct Keeper {
    endpoint: Endpoint,
    settings: Settings,
    /// Whether to end.
    told: watch::Receiver<bool>,
    serving: Option<JoinHandle<Result<(), Error>>>,
}

/// What has come of an attempt to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A client that connects now is accepted.
    Serves,
    /// Another process is about to serve.
    Waits,
}

impl Keeper {
    /// Runs until shutdown is requested.
    async fn keep(mut self) {
        let mut told = self.told.clone();
        loop {
            if tokio::time::timeout(WATCH, told.wait_for(|is_told| *is_told)).await.is_ok() {
                break;
            }
            let is_served = tokio::net::UnixStream::connect(self.endpoint.socket()).await.is_ok();
            if !is_served && let Err(error) = self.step().await {
                warn!(target: TARGET, "the runtime cannot be served: {error}");
            }
        }
        if let Some(serving) = self.serving {
            let _ = serving.await;
        }
    }

    /// Begins to serve, unless another process is about to, or this one does already.
    async fn step(&mut self) -> Result<Step, ConnectError> {
        if let Some(serving) = self.serving.take_if(|serving| serving.is_finished()) {
            serving.await.map_err(ConnectError::Task)??;
        }
        if self.serving.is_some() {
            return Ok(Step::Waits);
        }
        // Before anything is touched.
        let claim = match Claim::take(&self.endpoint).await {
            Err(cri::Error::Taken { .. }) => return Ok(Step::Waits),
            claim => claim?,
        };
        let runtime = Runtime::open(self.settings.clone()).await?;
        let listener = claim.listen()?;
        let mut told = self.told.clone();
        self.serving = Some(tokio::spawn(async move {
            let until = async {
                // The sender is gone: the same.
                let _ = told.wait_for(|is_told| *is_told).await;
            };
            runtime.serve_on(listener, until).await
        }));
        Ok(Step::Serves)
    }
}
