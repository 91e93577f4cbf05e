use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Identity, OnePod, config, connect, get, nowhere, send, start};

const OPEN: &str = "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n";

fn none() -> Identity {
    Identity::default()
}

#[tokio::test]
async fn each_path_answers_as_a_kubelet() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&config(dir.path(), OPEN), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let address = server.address.unwrap();
    for (path, status, body) in [
        ("/healthz", 200, "ok"),
        ("/healthz/ping", 200, "ok"),
        ("/healthz?verbose", 200, "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"),
        ("/healthz/unknown", 404, "404 page not found\n"),
        ("/unknown", 404, "404 page not found\n"),
        ("/metrics/cadvisor", 500, "the runtime has none"),
        ("/statusz", 404, "wardlet agent does not serve /statusz\n"),
        ("/metrics/../pods", 404, "404 page not found\n"),
        ("/%6eothing", 404, "404 page not found\n"),
        ("/containerLogs/shop/none/app", 404, "pod \"none\" does not exist"),
        ("/containerLogs/shop/web/other", 404, "container \"other\" not found in pod \"web\""),
        ("/containerLogs/shop/web/app", 400, "container \"app\" in pod \"web\" is not available"),
        ("/containerLogs/shop/web/app?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
        ("/containerLogs/shop/web/app?tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
    ] {
        let answer = get(address, path).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{path}");
    }
    let split = get(address, "/containerLogs/shop/web/app?stream=Stdout").await;
    assert!(split.status == 400 && split.body.contains("PodLogsQuerySplitStreams"), "{split:?}");
    let pods = get(address, "/%70ods").await;
    let list: serde_json::Value = serde_json::from_str(&pods.body).unwrap();
    assert_eq!(
        (list["kind"].as_str(), list["items"][0]["metadata"]["name"].as_str()),
        (Some("PodList"), Some("web"))
    );
    let config: serde_json::Value = serde_json::from_str(&get(address, "/configz").await.body).unwrap();
    let shown = &config["kubeletconfig"];
    assert_eq!((&shown["kind"], &shown["maxPods"]), (&"KubeletConfiguration".into(), &110.into()));
    let running: serde_json::Value = serde_json::from_str(&get(address, "/runningpods/").await.body).unwrap();
    assert_eq!(running["items"][0]["metadata"]["name"], "web");
    for method in ["GET", "POST"] {
        let answer =
            send(address, &none(), &format!("{method} /stats/summary"), "Content-Length: 0\r\n").await;
        let summary: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(summary["node"]["nodeName"], "node0", "{answer:?}");
    }
    let resources = get(address, "/metrics/resource").await;
    assert!(resources.body.contains("\nresource_scrape_error 0\n"), "{resources:?}");
    for path in
        ["/pods", "/metrics", "/metrics/resource", "/configz", "/healthz", "/containerLogs/shop/web/app"]
    {
        let answer = send(address, &none(), &format!("POST {path}"), "Content-Length: 0\r\n").await;
        assert_eq!((answer.status, answer.body.as_str()), (405, "Method Not Allowed"), "{path}");
        assert!(answer.headers.contains("\nallow: get\r"), "{}", answer.headers);
    }
    let metrics = get(address, "/metrics").await;
    for line in [
        "kubelet_node_name{node=\"node0\"} 1\n",
        "kubelet_http_requests_total{method=\"POST\",path=\"pods\",server_type=\"readwrite\",long_running=\"false\"} 1\n",
        "kubelet_http_inflight_requests{method=\"GET\",path=\"metrics\",server_type=\"readwrite\",long_running=\"false\"} 1\n",
    ] {
        assert!(metrics.body.contains(line), "{line}{}", metrics.body);
    }
}

#[tokio::test]
async fn debugging_and_the_server_can_be_disabled() {
    let dir = tempfile::tempdir().unwrap();
    let fields = format!("{OPEN}enableDebuggingHandlers: false\n");
    let server = start(&config(dir.path(), &fields), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let answer = get(server.address.unwrap(), "/containerLogs/shop/web/app").await;
    assert_eq!((answer.status, answer.body.as_str()), (405, "Debug endpoints are disabled.\n"));
    let off =
        start(&config(dir.path(), "enableServer: false\n"), dir.path(), nowhere(), OnePod::new(dir.path()))
            .await;
    assert_eq!(off.address, None);
}

/// Without an API server to ask, certificates and tokens give no access, and neither does an unknown path.
#[tokio::test]
async fn without_an_answer_of_the_api_server_every_request_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let anonymous = config(dir.path(), "authentication: {anonymous: {enabled: true}}\n");
    let server = start(&anonymous, dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let address = server.address.unwrap();
    for path in ["/healthz", "/pods", "/metrics", "/unknown", "/"] {
        let answer = get(address, path).await;
        assert_eq!(answer.status, 500, "{path}");
        assert!(
            answer.body.starts_with("Authorization error (user=system:anonymous, verb=get, resource=nodes, "),
            "{answer:?}"
        );
    }
    let token = send(address, &none(), "GET /pods", "Authorization: Bearer abc\r\n").await;
    assert_eq!((token.status, token.body.as_str()), (401, "Unauthorized"));
    let closed = start(&config(dir.path(), ""), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    for path in ["/healthz", "/pods", "/unknown"] {
        assert_eq!(get(closed.address.unwrap(), path).await.status, 401, "{path}");
    }
}

/// The answer comes while the body is still to be sent, and its end is not waited for.
#[tokio::test]
async fn a_refused_body_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&config(dir.path(), ""), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let mut stream = connect(server.address.unwrap(), &none()).await;
    let head = "POST /run/shop/web/app HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 401 ") && text.to_lowercase().contains("connection: close"), "{text}");
}

#[tokio::test]
async fn large_headers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&config(dir.path(), OPEN), dir.path(), nowhere(), OnePod::new(dir.path())).await;
    let address: SocketAddr = server.address.unwrap();
    let padding = |bytes: usize| format!("X-Padding: {}\r\n", "x".repeat(bytes));
    assert_eq!(send(address, &none(), "GET /healthz", &padding(20_000)).await.status, 200);
    let mut stream = connect(address, &none()).await;
    let request = format!("GET /healthz HTTP/1.0\r\n{}\r\n", padding(200_000));
    // The server may close the connection before all is sent, and its answer may be lost then.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&bytes));
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), OPEN);
    let first = start(&config, dir.path(), nowhere(), OnePod::new(dir.path())).await;
    config.port = first.address.unwrap().port();
    let options = kubelet_api::Options {
        config: &config,
        cert_dir: dir.path(),
        node: "node0",
        client: nowhere(),
        pods: OnePod::new(dir.path()),
        streams: std::sync::Arc::new(crate::support::NoStreams),
        usage: std::sync::Arc::new(crate::support::NoUsage),
        effective: &serde_json::json!({}),
        metrics: telemetry::metrics::Registry::default(),
        sync_loop: kubelet_api::SyncLoop::default(),
        page: None,
    };
    let error = kubelet_api::serve(options).await.unwrap_err();
    assert!(matches!(error, kubelet_api::ServeError::Listen { .. }), "{error}");
    assert!(error.hint().unwrap().contains("kubelet"), "{error}");
}
