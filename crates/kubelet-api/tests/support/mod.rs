//! A server on a port of its own, its pods, and a client that is not ours.
#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::{ContainerView, ExitView, InstanceView, StateView};
use kubelet_api::{
    Call, Detail, Document, NodeUsage, Options, Page, Pods, Reading, RunOutput, ServedContainer, ServedPage,
    ServedPod, Server, Session, StreamError, Streams, Usage, serve,
};
use node::kubelet::{KubeletConfig, KubeletFlags};
use serde_json::{Value, json};
use telemetry::metrics::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// One pod, `shop/web`, with the container `app`, whose state a test sets.
pub(crate) struct OnePod(Mutex<ServedPod>);

impl OnePod {
    pub(crate) fn new(logs: &Path) -> Arc<Self> {
        let app = ServedContainer { name: "app".into(), tty: false };
        let pod = ServedPod {
            uid: "u-1".into(),
            mirror_uid: None,
            containers: vec![app],
            statuses: vec![],
            logs: logs.to_owned(),
        };
        Arc::new(Self(Mutex::new(pod)))
    }

    pub(crate) fn set_instance(&self, state: StateView, instance: InstanceView) {
        self.set(state, 0);
        self.0.lock().unwrap().statuses[0].instance = Some(instance);
    }

    pub(crate) fn set(&self, state: StateView, restarts: u32) {
        let last = (restarts > 0).then(ended);
        let name = "app".to_owned();
        let (instance, previous_id) = (None, None);
        let view =
            ContainerView { name, state, last, ready: true, started: true, restarts, instance, previous_id };
        self.0.lock().unwrap().statuses = vec![view];
    }
}

pub(crate) fn ended() -> ExitView {
    serde_json::from_value(
        json!({"code": 0, "reason": "Completed", "message": "", "started": 1, "finished": 2}),
    )
    .unwrap()
}

pub(crate) fn running() -> StateView {
    StateView::Running { since: 1 }
}

impl Pods for OnePod {
    fn list(&self) -> Vec<Value> {
        vec![json!({"metadata": {"namespace": "shop", "name": "web"}})]
    }

    fn running(&self) -> Vec<Value> {
        vec![json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"containers": []}})]
    }

    fn find(&self, namespace: &str, name: &str) -> Option<ServedPod> {
        ((namespace, name) == ("shop", "web")).then(|| self.0.lock().unwrap().clone())
    }
}

/// A runtime that serves no session.
pub(crate) struct NoStreams;

impl Streams for NoStreams {
    fn url(&self, _: Session) -> Call<'_, String> {
        Box::pin(async { Err(StreamError::Failed("no streams".to_owned())) })
    }

    fn run(&self, _: String, _: Vec<String>) -> Call<'_, RunOutput> {
        Box::pin(async { Err(StreamError::Failed("no streams".to_owned())) })
    }
}

/// A node of which nothing is known but its name.
pub(crate) struct NoUsage;

impl Usage for NoUsage {
    fn read(&self, _: Detail) -> Reading<'_, NodeUsage> {
        Box::pin(async { Ok(NodeUsage { name: "node0".to_owned(), ..NodeUsage::default() }) })
    }

    fn container_metrics(&self) -> Reading<'_, String> {
        Box::pin(async { Err("the runtime has none".to_owned()) })
    }
}

/// The configuration in a file, on a free port, without the healthz port.
pub(crate) fn config(dir: &Path, fields: &str) -> KubeletConfig {
    let file = dir.join("config.yaml");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\naddress: 127.0.0.1\n";
    std::fs::write(&file, format!("{head}{fields}")).unwrap();
    let mut config = KubeletConfig::load(Some(&file), None, &KubeletFlags::default()).unwrap().config;
    (config.port, config.healthz_port) = (0, 0);
    config
}

/// Serves with this configuration. A test of decisions passes a client of a real API server.
pub(crate) async fn start(
    config: &KubeletConfig,
    dir: &Path,
    client: kube::Client,
    pods: Arc<dyn Pods>,
) -> Server {
    start_with(config, dir, client, pods, Arc::new(NoStreams)).await
}

/// Serves with this runtime.
pub(crate) async fn start_with(
    config: &KubeletConfig,
    dir: &Path,
    client: kube::Client,
    pods: Arc<dyn Pods>,
    streams: Arc<dyn Streams>,
) -> Server {
    let cert_dir = dir.join("pki");
    let options = Options {
        config,
        cert_dir: &cert_dir,
        node: "node0",
        client,
        pods,
        streams,
        usage: Arc::new(NoUsage),
        effective: &json!({"maxPods": 110}),
        metrics: Registry::default(),
        sync_loop: kubelet_api::SyncLoop::default(),
        page: None,
    };
    serve(options).await.unwrap()
}

/// Serves the page at this address, too.
pub(crate) async fn start_with_page(config: &KubeletConfig, dir: &Path, address: SocketAddr) -> Server {
    let cert_dir = dir.join("pki");
    let options = Options {
        config,
        cert_dir: &cert_dir,
        node: "node0",
        client: nowhere(),
        pods: OnePod::new(dir),
        streams: Arc::new(NoStreams),
        usage: Arc::new(NoUsage),
        effective: &json!({}),
        metrics: Registry::default(),
        sync_loop: kubelet_api::SyncLoop::default(),
        page: Some(ServedPage { page: Arc::new(OnePage), address }),
    };
    serve(options).await.unwrap()
}

/// A page of one paragraph, with data.
pub(crate) struct OnePage;

impl Page for OnePage {
    fn document(&self, path: &str, query: &str) -> Option<Document> {
        let policy = Some("default-src 'none'".to_owned());
        match path {
            "" => Some(Document { kind: "text/html; charset=utf-8", body: "<p>page</p>".to_owned(), policy }),
            "data.json" => {
                Some(Document { kind: "application/json", body: format!("{query:?}"), policy: None })
            }
            _ => None,
        }
    }
}

/// A client of an API server that does not exist.
pub(crate) fn nowhere() -> kube::Client {
    let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    config.connect_timeout = Some(Duration::from_secs(2));
    kube::Client::try_from(config).unwrap()
}

/// What a client has: certificate and key as PEM.
#[derive(Clone, Default)]
pub(crate) struct Identity(Option<(Vec<u8>, Vec<u8>)>);

impl Identity {
    pub(crate) fn files(certificate: &Path, key: &Path) -> Self {
        Self(Some((std::fs::read(certificate).unwrap(), std::fs::read(key).unwrap())))
    }

    pub(crate) fn pem(certificate: &str, key: &str) -> Self {
        Self(Some((certificate.as_bytes().to_vec(), key.as_bytes().to_vec())))
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

/// Takes any certificate of the server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS connection.
pub(crate) async fn connect(address: SocketAddr, identity: &Identity) -> TlsStream<TcpStream> {
    connect_for(address, identity, &[]).await
}

/// A TLS connection for one of these protocols.
pub(crate) async fn connect_for(
    address: SocketAddr,
    identity: &Identity,
    protocols: &[&str],
) -> TlsStream<TcpStream> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting));
    let mut config = match &identity.0 {
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>().unwrap();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("node0").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends a request of HTTP/1.0, whose answer ends with the connection.
pub(crate) async fn send(address: SocketAddr, identity: &Identity, request: &str, headers: &str) -> Answer {
    let mut stream = connect(address, identity).await;
    let text = format!("{request} HTTP/1.0\r\nHost: node0\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A server need not say that it closes the connection.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {text:?}"));
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, headers: headers.to_lowercase(), body: body.to_owned() }
}

/// GET without credentials.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &Identity::default(), &format!("GET {path}"), "").await
}
