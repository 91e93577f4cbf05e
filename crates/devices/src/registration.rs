//! The socket at which device plugins register.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::{error, info, warn};
use types::is_extended_resource;

use crate::api::VERSION;
use crate::api::v1beta1::registration_server::{Registration, RegistrationServer as Service};
use crate::api::v1beta1::{Empty, RegisterRequest};
use crate::checkpoint::FILE;
use crate::error::{Error, Result};
use crate::manager::DeviceManager;
use crate::socket::{Listener, check_unused, is_socket};

/// Its name in the directory of device plugins.
pub(crate) const SOCKET: &str = "kubelet.sock";
/// Calls of one connection at the same time.
const CALLS: usize = 16;
/// A client that says nothing for so long is asked whether it is there, and may take as long to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The longest name of a resource after its domain, and the longest domain.
const LONGEST_NAME: usize = 63;
const LONGEST_DOMAIN: usize = 253;
/// What a quota puts before the name, which then has to be one, too.
const OF_QUOTA: &str = "requests.";

/// The registration of device plugins while it is served. It ends when this value is dropped, with all connections to plugins.
#[derive(Debug)]
pub struct RegistrationServer {
    manager: DeviceManager,
    is_serving: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl RegistrationServer {
    /// Whether plugins can register.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }
}

impl Drop for RegistrationServer {
    fn drop(&mut self) {
        self.manager.disconnect_all();
    }
}

impl DeviceManager {
    /// Removes the sockets of earlier processes and makes that of the node: plugins notice that it is new, and register. Must
    /// be called within a tokio runtime.
    ///
    /// # Errors
    /// If another process serves there, or the socket or the first checkpoint cannot be made.
    pub async fn serve(&self) -> Result<RegistrationServer> {
        let dir = &self.inner.dir;
        let socket = dir.join(SOCKET);
        if is_socket(&socket) {
            check_unused(&socket).await?;
        }
        remove_sockets(dir)?;
        self.save_first().await?;
        let incoming = Listener::bind(&socket).await?.incoming();
        let registrar = Registrar { manager: self.clone() };
        let server = Server::builder()
            .concurrency_limit_per_connection(CALLS)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .add_service(Service::new(registrar));
        info!("device plugins register at {}", socket.display());
        let is_serving = Arc::new(AtomicBool::new(true));
        let serves = Arc::clone(&is_serving);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(cause) = server.serve_with_incoming(incoming).await {
                error!("device plugins cannot register any more: {cause}; restart the agent");
            }
            serves.store(false, Ordering::Relaxed);
        });
        tasks.spawn(self.clone().expire());
        Ok(RegistrationServer { manager: self.clone(), is_serving, _tasks: tasks })
    }

    /// Registers the plugin of a resource at this socket.
    ///
    /// # Errors
    /// Why it is not registered, for its author.
    pub(crate) async fn register(&self, resource: &str, socket: &Path) -> std::result::Result<(), String> {
        check_name(resource)?;
        self.connect(resource, socket).await.map(drop)
    }
}

/// Removes the sockets in the directory: those that serve this process are made later. Links are not followed.
fn remove_sockets(dir: &Path) -> Result<()> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |cause: io::Error| Error::Socket { action, path, cause }
    };
    for entry in std::fs::read_dir(dir).map_err(failed("list the sockets in", dir))? {
        let path = entry.map_err(failed("list the sockets in", dir))?.path();
        if is_socket(&path) && path.file_name().is_some_and(|name| name != FILE) {
            std::fs::remove_file(&path).map_err(failed("remove the socket", &path))?;
        }
    }
    Ok(())
}

/// Answers plugins that register.
struct Registrar {
    manager: DeviceManager,
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> std::result::Result<Response<Empty>, Status> {
        let RegisterRequest { version, endpoint, resource_name, .. } = request.into_inner();
        let registered = async {
            check_version(std::slice::from_ref(&version))?;
            let socket = socket_of(&self.manager.inner.dir, &endpoint)?;
            self.manager.register(&resource_name, &socket).await
        };
        match registered.await {
            Ok(()) => Ok(Response::new(Empty {})),
            Err(cause) => {
                warn!(resource = resource_name, "a device plugin is not registered: {cause}");
                Err(Status::unknown(cause))
            }
        }
    }
}

/// Refuses a plugin that speaks no version of the protocol that the node does.
pub(crate) fn check_version(versions: &[String]) -> std::result::Result<(), String> {
    if versions.iter().any(|version| version == VERSION) {
        return Ok(());
    }
    let asked = versions.join(", ");
    Err(format!(
        "requested API version {asked:?} is not supported by kubelet. Supported version is [{VERSION:?}]"
    ))
}

/// Refuses what is no name of an extended resource.
pub(crate) fn check_name(resource: &str) -> std::result::Result<(), String> {
    let is_valid = is_extended_resource(resource)
        && resource.split_once('/').is_some_and(|(domain, name)| is_domain(domain) && is_name(name));
    if is_valid { Ok(()) } else { Err(format!("the ResourceName {resource:?} is invalid")) }
}

/// A DNS name, also with what a quota puts before it.
fn is_domain(domain: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    domain.len() + OF_QUOTA.len() <= LONGEST_DOMAIN && domain.split('.').all(is_label)
}

fn is_name(name: &str) -> bool {
    let is_outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= LONGEST_NAME
        && name.bytes().all(is_inner)
        && is_outer(name.bytes().next())
        && is_outer(name.bytes().last())
}

/// The socket of this name in the directory of device plugins.
fn socket_of(dir: &Path, endpoint: &str) -> std::result::Result<PathBuf, String> {
    let path = Path::new(endpoint);
    let is_below = !endpoint.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_below {
        return Ok(dir.join(path));
    }
    Err(format!(
        "the endpoint {endpoint:?} is not the name of a socket in {}: a plugin listens there and gives the name alone",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_a_domain_of_its_own_and_a_name() {
        for name in ["example.com/gpu", "a.b-c.d/G_p.u-1", "vendor/x"] {
            check_name(name).unwrap();
        }
        let long = format!("example.com/{}", "a".repeat(64));
        let domain = format!("{}/x", "a.".repeat(122) + "b");
        for name in [
            "gpu",
            "cpu",
            "kubernetes.io/gpu",
            "node.kubernetes.io/gpu",
            "requests.example.com/gpu",
            "example.com/",
            "/gpu",
            "Example.com/gpu",
            "example..com/gpu",
            "example.com/-gpu",
            "example.com/gpu_",
            "example.com/a/b",
            "example.com/a b",
            "example.com/a\n",
            &long,
            &domain,
        ] {
            assert_eq!(check_name(name).unwrap_err(), format!("the ResourceName {name:?} is invalid"));
        }
    }

    #[test]
    fn a_plugin_listens_in_the_nodes_directory() {
        let of = |endpoint| socket_of(Path::new("/dp"), endpoint);
        assert_eq!(of("gpu.sock").unwrap(), Path::new("/dp/gpu.sock"));
        assert_eq!(of("vendor/gpu.sock").unwrap(), Path::new("/dp/vendor/gpu.sock"));
        for endpoint in ["", "/run/containerd/containerd.sock", "../containerd.sock", "a/../../b", "."] {
            of(endpoint).unwrap_err();
        }
    }

    #[test]
    fn another_version_is_refused_by_name() {
        check_version(&["v1alpha".to_owned(), "v1beta1".to_owned()]).unwrap();
        let error = check_version(&["v2".to_owned()]).unwrap_err();
        assert_eq!(
            error,
            "requested API version \"v2\" is not supported by kubelet. Supported version is [\"v1beta1\"]"
        );
    }
}
