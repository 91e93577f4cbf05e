//! A node with its device plugins, in one process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devices::{ContainerRequest, DeviceCount, DeviceManager, Lifetime, PodRequest, RegistrationServer};
use telemetry::metrics::Registry;

use crate::support::{FakeDevice, FakePlugin, PluginProcess, ready, register};

pub(crate) const GPU: &str = "example.com/gpu";

/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) manager: DeviceManager,
    pub(crate) metrics: Registry,
    pub(crate) server: Option<RegistrationServer>,
}

/// A plugin that serves.
pub(crate) struct Serving {
    pub(crate) plugin: FakePlugin,
    pub(crate) socket: PathBuf,
    process: PluginProcess,
}

impl Serving {
    /// Ends the plugin, with all of its connections.
    pub(crate) fn end(self) {
        drop(self.process);
        std::fs::remove_file(&self.socket).unwrap();
    }
}

impl Node {
    pub(crate) async fn start() -> Self {
        Self::over(tempfile::tempdir().unwrap()).await
    }

    /// A node that finds what is in this directory.
    pub(crate) async fn over(dir: tempfile::TempDir) -> Self {
        let metrics = Registry::default();
        let manager = DeviceManager::open(dir.path(), &metrics).unwrap();
        let server = Some(manager.serve().await.unwrap());
        Self { dir, manager, metrics, server }
    }

    /// The next process on the same directory.
    pub(crate) async fn restarted(self) -> Self {
        let Self { dir, manager, server, .. } = self;
        drop((server, manager));
        // What the process had under way when it ended.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Self::over(dir).await
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Starts a plugin and registers it.
    pub(crate) async fn plugin(&self, endpoint: &str, plugin: FakePlugin) -> Serving {
        let socket = self.path().join(endpoint);
        let process = plugin.serve(&socket);
        ready(&socket).await;
        register(self.path(), endpoint, GPU).await.unwrap();
        Serving { plugin, socket, process }
    }

    pub(crate) async fn has(&self, capacity: usize, allocatable: usize) {
        let mut counts = self.manager.counts();
        let wanted = Some(DeviceCount { capacity, allocatable });
        let reached = counts.wait_for(|counts| counts.get(GPU).copied() == wanted);
        let reached = tokio::time::timeout(PATIENCE, reached).await.map(drop);
        reached.unwrap_or_else(|_| panic!("{:?} instead of {wanted:?}", self.manager.counts().borrow()));
    }
}

pub(crate) fn devices(ids: &[&str]) -> Vec<FakeDevice> {
    ids.iter().map(|id| FakeDevice::new(id, "/dev/null")).collect()
}

pub(crate) fn pod(uid: &str, count: u64) -> PodRequest {
    let container = ContainerRequest {
        name: "app".to_owned(),
        lifetime: Lifetime::Pod,
        resources: [(GPU.to_owned(), count)].into(),
    };
    PodRequest { uid: uid.to_owned(), containers: vec![container] }
}

/// Waits for what a task does.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
