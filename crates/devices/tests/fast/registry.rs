//! Plugins that are registered by a socket in `plugins_registry`.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devices::api::VERSION;
use devices::api::pluginregistration::registration_server::{Registration, RegistrationServer};
use devices::api::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use devices::plugin_watcher::{DEVICE_PLUGIN, Handlers, watch};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::node::{GPU, Node, devices, until};
use crate::support::{FakePlugin, ready, register};

/// Says what it is, and remembers what it was answered.
#[derive(Clone)]
struct Info {
    info: PluginInfo,
    asked: Arc<AtomicUsize>,
    answers: Arc<Mutex<Vec<RegistrationStatus>>>,
}

impl Info {
    fn new(kind: &str, name: &str, endpoint: &Path) -> Self {
        let info = PluginInfo {
            r#type: kind.to_owned(),
            name: name.to_owned(),
            endpoint: endpoint.display().to_string(),
            supported_versions: vec![VERSION.to_owned()],
        };
        Self { info, asked: Arc::default(), answers: Arc::default() }
    }

    fn serve(&self, socket: &Path) -> JoinHandle<()> {
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        let server = Server::builder().add_service(RegistrationServer::new(self.clone()));
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() })
    }

    /// How often it was asked what it is.
    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn last(&self) -> Option<RegistrationStatus> {
        self.answers.lock().unwrap().last().cloned()
    }
}

#[tonic::async_trait]
impl Registration for Info {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        self.answers.lock().unwrap().push(request.into_inner());
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[tokio::test]
async fn a_device_plugin_is_registered_by_its_socket_and_comes_back_with_it() {
    let node = Node::start().await;
    let registry = tempfile::tempdir().unwrap();
    let handlers = Handlers::from([(DEVICE_PLUGIN, Arc::new(node.manager.clone()) as _)]);
    let _watching = tokio::spawn(watch(registry.path().to_owned(), handlers));

    let plugin = FakePlugin::new(devices(&["a"]));
    let endpoint = node.path().join("fake.sock");
    let _serving = plugin.serve(&endpoint);
    ready(&endpoint).await;
    let (ours, socket) = (Info::new(DEVICE_PLUGIN, GPU, &endpoint), registry.path().join("gpu.sock"));
    let task = ours.serve(&socket);
    node.has(1, 1).await;
    until("it is notified", || ours.last().is_some_and(|status| status.plugin_registered)).await;

    // Its socket goes, and comes back.
    task.abort();
    std::fs::remove_file(&socket).unwrap();
    node.has(1, 0).await;
    let again = Info::new(DEVICE_PLUGIN, GPU, &endpoint);
    let _task = again.serve(&socket);
    node.has(1, 1).await;
    assert!(again.last().is_none_or(|status| status.plugin_registered));
}

/// It registered at the node's socket meanwhile, as it does when that is a new one.
#[tokio::test]
async fn a_registration_outlives_an_earlier_one_of_the_same_plugin() {
    let node = Node::start().await;
    let registry = tempfile::tempdir().unwrap();
    let handlers = Handlers::from([(DEVICE_PLUGIN, Arc::new(node.manager.clone()) as _)]);
    let _watching = tokio::spawn(watch(registry.path().to_owned(), handlers));
    let plugin = FakePlugin::new(devices(&["a"]));
    let endpoint = node.path().join("fake.sock");
    let _serving = plugin.serve(&endpoint);
    ready(&endpoint).await;
    let (ours, socket) = (Info::new(DEVICE_PLUGIN, GPU, &endpoint), registry.path().join("gpu.sock"));
    let task = ours.serve(&socket);
    until("it is notified", || ours.last().is_some_and(|status| status.plugin_registered)).await;
    register(node.path(), "fake.sock", GPU).await.unwrap();
    node.has(1, 1).await;
    task.abort();
    std::fs::remove_file(&socket).unwrap();
    // Longer than the watcher takes to see that.
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.has(1, 1).await;
}

#[tokio::test]
async fn a_device_plugin_of_another_version_or_without_a_valid_name_is_notified() {
    let node = Node::start().await;
    let registry = tempfile::tempdir().unwrap();
    let handlers = Handlers::from([(DEVICE_PLUGIN, Arc::new(node.manager.clone()) as _)]);
    let _watching = tokio::spawn(watch(registry.path().to_owned(), handlers));
    let mut old = Info::new(DEVICE_PLUGIN, GPU, Path::new("/missing.sock"));
    old.info.supported_versions = vec!["v1alpha".to_owned()];
    let unnamed = Info::new(DEVICE_PLUGIN, "gpu", Path::new("/missing.sock"));
    let _tasks = [old.serve(&registry.path().join("old")), unnamed.serve(&registry.path().join("unnamed"))];
    for (plugin, cause) in [(&old, "\"v1alpha\" is not supported"), (&unnamed, "\"gpu\" is invalid")] {
        until("it is notified", || plugin.last().is_some()).await;
        let status = plugin.last().unwrap();
        assert!(!status.plugin_registered && status.error.contains(cause), "{}", status.error);
    }
}

/// A CSI driver's registrar ends when it is refused, and its pod is restarted for ever.
#[tokio::test]
async fn a_plugin_of_a_type_without_a_handler_is_notified_of_nothing() {
    let registry = tempfile::tempdir().unwrap();
    let other = Info::new("CSIPlugin", "csi.example.com", Path::new("/csi.sock"));
    let _other = other.serve(&registry.path().join("csi.sock"));
    let node = Node::start().await;
    let handlers = Handlers::from([(DEVICE_PLUGIN, Arc::new(node.manager.clone()) as _)]);
    let _watching = tokio::spawn(watch(registry.path().to_owned(), handlers));
    until("it is asked", || other.asked() > 0).await;
    // Longer than the first pauses before a plugin that is not registered is asked again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((other.asked(), other.last()), (1, None));
}
