//! The page of a node, over real connections.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{config, get, start_with_page};

const OPEN: &str = "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n";

/// A loopback address whose port is free.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The whole answer to a request without TLS, once the port is open.
async fn plain(address: SocketAddr, host: &str, path: &str) -> String {
    let mut stream = loop {
        match TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn on_a_loopback_address_the_page_is_served_to_this_host_alone() {
    let dir = tempfile::tempdir().unwrap();
    let address = free();
    let server = start_with_page(&config(dir.path(), ""), dir.path(), address).await;
    assert_eq!(server.page, None);
    let page = plain(address, "localhost", "/wardlet/").await.to_lowercase();
    assert!(page.starts_with("http/1.1 200 ") && page.ends_with("<p>page</p>"), "{page}");
    let policy = "content-security-policy: default-src 'none'; frame-ancestors 'none'";
    assert!(page.contains(policy) && page.contains("x-frame-options: deny"), "{page}");
    let other = plain(address, "evil.example", "/wardlet/").await;
    assert!(other.starts_with("HTTP/1.1 421 ") && !other.contains("<p>"), "{other}");
    // It is the page's port, not the kubelet's API without authentication.
    for path in ["/pods", "/metrics", "/exec/shop/web/app", "/configz"] {
        assert!(plain(address, "localhost", path).await.starts_with("HTTP/1.1 404 "), "{path}");
    }
}

#[tokio::test]
async fn on_port_10250_the_page_is_for_users_with_a_decision_of_the_api_server() {
    let dir = tempfile::tempdir().unwrap();
    let closed = start_with_page(&config(dir.path(), ""), dir.path(), free()).await;
    for path in ["/wardlet/", "/wardlet/data.json", "/wardlet"] {
        assert_eq!(get(closed.address.unwrap(), path).await.status, 401, "{path}");
    }
    let anonymous = config(dir.path(), "authentication: {anonymous: {enabled: true}}\n");
    let unreachable = start_with_page(&anonymous, dir.path(), free()).await;
    let refused = get(unreachable.address.unwrap(), "/wardlet/").await;
    assert_eq!(refused.status, 500);
    assert!(refused.body.contains("resource=nodes, subresource=pods"), "{refused:?}");
    let open = start_with_page(&config(dir.path(), OPEN), dir.path(), free()).await;
    let address = open.address.unwrap();
    let page = get(address, "/wardlet/").await;
    assert_eq!((page.status, page.body.as_str()), (200, "<p>page</p>"));
    assert!(
        page.headers.contains("content-security-policy: default-src 'none'; frame-ancestors"),
        "{page:?}"
    );
    assert_eq!(get(address, "/wardlet/data.json?a=b").await.body, "\"a=b\"");
    let moved = get(address, "/wardlet").await;
    assert!(moved.status == 307 && moved.headers.contains("location: wardlet/"), "{moved:?}");
    for path in ["/wardlet/none", "/wardlet/../pods", "/wardlets"] {
        assert_eq!(get(address, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn on_an_address_of_the_network_the_page_has_tls_and_is_all_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let closed = start_with_page(&config(dir.path(), ""), dir.path(), everywhere).await;
    let local = |address: SocketAddr| SocketAddr::from(([127, 0, 0, 1], address.port()));
    assert_eq!(get(local(closed.page.unwrap()), "/wardlet/").await.status, 401);
    let open = start_with_page(&config(dir.path(), OPEN), dir.path(), everywhere).await;
    let address = local(open.page.unwrap());
    assert_eq!(get(address, "/wardlet/").await.body, "<p>page</p>");
    for path in ["/pods", "/metrics", "/healthz", "/containerLogs/shop/web/app"] {
        assert_eq!(get(address, path).await.status, 404, "{path}");
    }
}
