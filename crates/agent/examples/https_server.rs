//! A server for tests of probes over HTTPS: whoever asks for `/well` gets 200 for as long as the file in its second
//! argument is there, and 503 after that.
//!
//!     https_server PORT FILE
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// With a certificate that nobody has signed and that is for another name.
fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(acceptor: TlsAcceptor, stream: TcpStream, file: PathBuf) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut asked = vec![0; 4096];
    let read = stream.read(&mut asked).await?;
    let is_asked = asked.get(..read).unwrap_or_default().starts_with(b"GET /well HTTP/1.1\r\n");
    let status = if is_asked && file.exists() { "200 OK" } else { "503 Service Unavailable" };
    stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    stream.shutdown().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words = std::env::args().skip(1);
    let port: u16 = words.next().and_then(|word| word.parse().ok()).unwrap();
    let file = PathBuf::from(words.next().unwrap());
    let (acceptor, listener) = (acceptor(), TcpListener::bind(("0.0.0.0", port)).await.unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let answered = answer(acceptor.clone(), stream, file.clone());
        // Whoever hangs up has asked nothing.
        tokio::spawn(async move { drop(answered.await) });
    }
}
