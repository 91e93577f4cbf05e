//! A client of port 10250, with the credentials of the API server: TLS, HTTP/1.1, and as much of WebSockets as a load needs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(crate) type Stream = TlsStream<TcpStream>;

/// Where the port is.
pub(crate) const ADDRESS: &str = "10.240.0.10:10250";

/// The port, for one identity.
#[derive(Clone)]
pub(crate) struct Port {
    tls: Arc<ClientConfig>,
}

impl Port {
    /// With the files of a testbed.
    pub(crate) fn new(pki: &Path) -> Self {
        let file = |name: &str| pki.join(name);
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(file("ca.crt")).unwrap() {
            roots.add(authority.unwrap()).unwrap();
        }
        let chain = CertificateDer::pem_file_iter(file("apiserver-kubelet.crt")).unwrap();
        let chain: Vec<_> = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(file("apiserver-kubelet.key")).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Self { tls: Arc::new(builder.with_client_auth_cert(chain, key).unwrap()) }
    }

    pub(crate) async fn connect(&self) -> Stream {
        let stream = TcpStream::connect(ADDRESS).await.unwrap();
        let address: SocketAddr = ADDRESS.parse().unwrap();
        let name = ServerName::from(address.ip());
        TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.unwrap()
    }

    /// Asks, and reads the head of the answer: its status, and the connection behind it. `None` if the connection ends first.
    pub(crate) async fn ask(&self, request: &str, headers: &str) -> Option<(u16, Stream)> {
        let mut stream = self.connect().await;
        let text = format!("{request} HTTP/1.1\r\nHost: {ADDRESS}\r\n{headers}\r\n");
        // The server may have answered before all is sent.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        Some((head.split(' ').nth(1).unwrap().parse().unwrap(), stream))
    }

    /// A WebSocket with the newest protocol of commands.
    pub(crate) async fn command(&self, path: &str) -> WebSocket {
        let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
        let (status, stream) = self.ask(&format!("GET {path}"), headers).await.unwrap();
        assert_eq!(status, 101, "{path}");
        WebSocket(stream)
    }
}

/// A WebSocket of a client.
pub(crate) struct WebSocket(Stream);

impl WebSocket {
    async fn frame(&mut self, first: u8, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = vec![first];
        match u8::try_from(payload.len()) {
            Ok(length @ ..=125) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload as it is.
        frame.extend([0; 4]);
        frame.extend(payload);
        self.0.write_all(&frame).await
    }

    /// Sends a message to a channel.
    pub(crate) async fn send(&mut self, channel: u8, text: &[u8]) -> std::io::Result<()> {
        self.frame(0x82, &[&[channel], text].concat()).await
    }

    /// The next message: its channel and text; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let (first, length) = (self.0.read_u8().await.ok()?, self.0.read_u8().await.ok()?);
            let length = match length {
                126 => usize::from(self.0.read_u16().await.ok()?),
                127 => usize::try_from(self.0.read_u64().await.ok()?).unwrap(),
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.ok()?;
            match first & 0x0f {
                0x2 => return Some((*payload.first()?, payload.split_off(1))),
                0x9 => self.frame(0x8a, &payload).await.ok()?,
                0x8 => return None,
                _ => {}
            }
        }
    }
}
