//! What a client without rights can cost the node. Each test fails without the limit that it is about.

use std::time::Duration;

use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Identity, OnePod, config, connect, connect_for, get, nowhere, start};

/// How long an attacked server may take: less than the time after which it ends silent connections anyway.
const SOON: Duration = Duration::from_secs(8);
const OPEN: &str = "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n";

/// A client certificate, followed by so many of authorities.
fn chain(authorities: usize) -> Identity {
    let key = KeyPair::generate().unwrap();
    let authority = || {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let own = KeyPair::generate().unwrap();
    let params = authority();
    let issuer = Issuer::from_params(&params, &key);
    let leaf = CertificateParams::new(Vec::new()).unwrap().signed_by(&own, &issuer).unwrap().pem();
    let others = (0..authorities).map(|_| authority().self_signed(&key).unwrap().pem());
    let pem: String = std::iter::once(leaf).chain(others).collect();
    Identity::pem(&pem, &own.serialize_pem())
}

#[tokio::test]
async fn a_long_chain_of_certificates_is_not_verified() {
    let dir = tempfile::tempdir().unwrap();
    let authority = dir.path().join("ca.crt");
    let key = KeyPair::generate().unwrap();
    std::fs::write(&authority, CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem())
        .unwrap();
    let fields = format!("authentication: {{x509: {{clientCAFile: {}}}}}\n", authority.display());
    let server = start(&config(dir.path(), &fields), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    for (authorities, is_answered) in [(2, true), (40, false)] {
        let mut stream = connect(server.address.unwrap(), &chain(authorities)).await;
        // With TLS 1.3 a client hears after the handshake that its certificate was refused.
        let _ = stream.write_all(b"GET /pods HTTP/1.0\r\n\r\n").await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        assert_eq!(bytes.starts_with(b"HTTP/1.0 401 "), is_answered, "{}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test]
async fn a_refused_client_of_http2_has_to_connect_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&config(dir.path(), ""), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let stream = connect_for(server.address.unwrap(), &Identity::default(), &["h2"]).await;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = || Request::get("https://node0/pods").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 401);
    let ended = tokio::time::timeout(SOON, connection).await;
    assert!(ended.is_ok(), "the connection goes on");
    assert!(sender.send_request(request()).await.is_err());
}

#[tokio::test]
async fn silent_clients_keep_no_other_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&config(dir.path(), OPEN), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let address = server.address.unwrap();
    let files =
        usize::try_from(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    // Both ends are in this process.
    let count = (files / 4).min(1024) + 50;
    let mut silent = Vec::new();
    for _ in 0..count {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let answer = tokio::time::timeout(SOON, get(address, "/healthz")).await;
    assert_eq!(answer.map(|answer| answer.status), Ok(200));
}
