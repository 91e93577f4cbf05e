//! What a URL is good for.

use crate::support;

use streaming::Error;
use support::{attach, body, exec, ports, serve, upgrade, upgrade_websocket};
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn a_url_works_once() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["true"])).unwrap();
    assert_eq!(upgrade_websocket(&url, "v4.channel.k8s.io").await.status, 101);
    let again = upgrade_websocket(&url, "v4.channel.k8s.io").await;
    assert_eq!(again.status, 404);
    assert!(body(again).await.contains("it was used or has expired"));
}

#[tokio::test]
async fn a_url_works_for_its_own_verb_only() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["true"])).unwrap().replace("/exec/", "/attach/");
    assert_eq!(upgrade_websocket(&url, "v4.channel.k8s.io").await.status, 404);
}

#[tokio::test]
async fn tokens_cannot_be_told_from_each_other() {
    let (server, _) = serve().await;
    let first = server.exec(exec(&["true"])).unwrap();
    let second = server.exec(exec(&["true"])).unwrap();
    let token = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    assert_eq!(token(&first).len(), 32);
    assert_ne!(token(&first), token(&second));
}

#[tokio::test]
async fn a_client_that_falls_back_to_another_protocol_uses_one_url() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["true"])).unwrap();
    let refused = upgrade_websocket(&url, "v9.channel.k8s.io").await;
    assert_eq!(refused.status, 403);
    assert!(body(refused).await.contains("v5.channel.k8s.io"));
    assert_eq!(upgrade_websocket(&url, "v4.channel.k8s.io").await.status, 101);
}

#[tokio::test]
async fn what_is_no_session_is_not_found() {
    let (server, _) = serve().await;
    let base = format!("http://{}", server.address());
    for path in ["/", "/exec/", "/exec/0", "/metrics/0", "/exec/../exec/0", "/%2e/%00"] {
        assert_eq!(
            upgrade_websocket(&format!("{base}{path}"), "v4.channel.k8s.io").await.status,
            404,
            "{path}"
        );
    }
    assert_eq!(upgrade(&format!("{base}/exec/0"), "DELETE", &[]).await.status, 405);
    assert_eq!(upgrade(&format!("{base}/exec/0"), "GET", &[]).await.status, 400);
}

#[tokio::test]
async fn a_base_url_can_be_set_and_its_path_is_no_matter() {
    let (server, _) = serve().await;
    let address = server.address();
    let server = server.with_base_url(&format!("http://{address}/behind/a/proxy/")).unwrap();
    let url = server.exec(exec(&["true"])).unwrap();
    assert!(url.starts_with(&format!("http://{address}/behind/a/proxy/exec/")), "{url}");
    assert_eq!(upgrade_websocket(&url, "v4.channel.k8s.io").await.status, 101);
}

#[tokio::test]
async fn a_base_url_that_is_none_is_refused() {
    for url in [
        "",
        "localhost:80",
        "ftp://localhost",
        "http://",
        "http:///path",
        "http://a?b",
        "http://a#b",
        "http://a b",
    ] {
        let (server, _) = serve().await;
        let refused = server.with_base_url(url).err().unwrap();
        assert!(matches!(&refused, Error::BaseUrl { url: given } if given == url), "{refused}");
    }
}

#[tokio::test]
async fn requests_that_cri_does_not_allow_get_no_url() {
    let (server, _) = serve().await;
    let refused = |result: streaming::Result<String>| match result {
        Err(Error::Request { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let mut request = exec(&["true"]);
    request.tty = true;
    assert_eq!(refused(server.exec(request)), "stderr");
    assert_eq!(refused(server.exec(exec(&[]))), "cmd");
    let mut request = attach("c");
    (request.stdin, request.stdout) = (false, false);
    assert_eq!(refused(server.attach(request)), "stdin");
    assert_eq!(refused(server.attach(attach(""))), "container_id");
    assert_eq!(refused(server.port_forward(ports(&[80, 0]))), "port");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (server, _) = serve().await;
    let (sender, _seen) = tokio::sync::mpsc::unbounded_channel();
    let taken =
        streaming::Server::bind(server.address(), std::sync::Arc::new(support::Host::new(sender))).await;
    let refused = taken.err().unwrap();
    assert!(refused.to_string().contains(&server.address().to_string()), "{refused}");
    assert!(refused.hint().is_some());
}

#[tokio::test]
async fn dropping_the_server_ends_its_sessions() {
    let (server, mut seen) = serve().await;
    let url = server.exec(exec(&["wait"])).unwrap();
    let mut client = upgrade_websocket(&url, "v4.channel.k8s.io").await;
    support::see(&mut seen, &support::Seen::Began("exec")).await;
    drop(server);
    let mut rest = Vec::new();
    let _ = client.io.read_to_end(&mut rest).await;
    assert_eq!(seen.recv().await, None);
}
