use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use agent::StateView;
use kubelet_api::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt as _};

use crate::support::{Identity, OnePod, config, connect, ended, get, nowhere, running, start};

const OPEN: &str = "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n";
const PATH: &str = "/containerLogs/shop/web/app";

struct Logs {
    dir: tempfile::TempDir,
    pod: std::sync::Arc<OnePod>,
    server: Server,
}

impl Logs {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs/pod");
        fs::create_dir_all(logs.join("app")).unwrap();
        let pod = OnePod::new(&logs);
        let server =
            start(&config(dir.path(), OPEN), dir.path(), nowhere(), std::sync::Arc::clone(&pod) as _).await;
        Self { dir, pod, server }
    }

    fn append(&self, file: &str, lines: &[&str]) {
        let path = self.dir.path().join("logs/pod/app").join(file);
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        for line in lines {
            writeln!(file, "2026-03-01T12:30:0{line}").unwrap();
        }
    }

    fn address(&self) -> SocketAddr {
        self.server.address.unwrap()
    }

    async fn read(&self, query: &str) -> String {
        let answer = get(self.address(), &format!("{PATH}{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.body
    }
}

#[tokio::test]
async fn the_parameters_choose_what_is_sent() {
    let logs = Logs::start().await;
    logs.append("0.log", &["1Z stdout F before"]);
    logs.append("1.log", &["2Z stdout F one", "3.5Z stderr P tw", "3.6Z stderr F o", "4Z stdout F three"]);
    logs.pod.set(running(), 1);
    assert_eq!(logs.read("").await, "one\ntwo\nthree\n");
    assert_eq!(logs.read("?tailLines=1").await, "three\n");
    assert_eq!(logs.read("?tailLines=0").await, "");
    assert_eq!(logs.read("?previous=true").await, "before\n");
    assert_eq!(logs.read("?sinceTime=2026-03-01T12:30:04Z").await, "three\n");
    assert_eq!(logs.read("?sinceSeconds=1").await, "");
    assert_eq!(logs.read("?limitBytes=5").await, "one\nt");
    assert_eq!(logs.read("?timestamps=true&tailLines=1").await, "2026-03-01T12:30:04.000000000Z three\n");
    assert_eq!(logs.read("?stream=All").await, "one\ntwo\nthree\n");
}

/// Reads until the text is there.
async fn until(stream: &mut (impl AsyncReadExt + Unpin), seen: &mut String, text: &str) {
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "the log ended without {text}: {seen}");
        seen.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
}

#[tokio::test]
async fn a_log_is_followed_over_a_rotation_until_the_container_ends() {
    let logs = Logs::start().await;
    logs.append("0.log", &["1Z stdout F one", "2Z stdout F two"]);
    logs.pod.set(running(), 0);
    let mut stream = connect(logs.address(), &Identity::default()).await;
    let request = format!("GET {PATH}?follow=true&tailLines=1 HTTP/1.0\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    until(&mut stream, &mut seen, "two\n").await;
    logs.append("0.log", &["3Z stdout F three"]);
    until(&mut stream, &mut seen, "three\n").await;
    let app = logs.dir.path().join("logs/pod/app");
    fs::rename(app.join("0.log"), app.join("0.log.1")).unwrap();
    logs.append("0.log", &["4Z stdout F four"]);
    until(&mut stream, &mut seen, "four\n").await;
    logs.append("0.log", &["5Z stdout F last"]);
    logs.pod.set(StateView::Terminated(ended()), 0);
    let _ = stream.read_to_string(&mut seen).await;
    let (_, body) = seen.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "two\nthree\nfour\nlast\n");
}

/// A pod may have its log directory as a volume.
#[tokio::test]
async fn no_file_is_read_through_a_link() {
    let logs = Logs::start().await;
    let root = logs.dir.path();
    let secret = root.join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("0.log"), "2026-03-01T12:30:01Z stdout F secret\n").unwrap();
    logs.pod.set(running(), 0);
    let app = root.join("logs/pod/app");
    let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to).unwrap();
    link(&secret.join("0.log"), &app.join("0.log"));
    assert_eq!(logs.read("").await, "");
    fs::remove_dir_all(&app).unwrap();
    link(&secret, &app);
    let answer = get(logs.address(), PATH).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(!answer.body.contains("F secret"), "{answer:?}");
    for path in [
        "/containerLogs/shop/web/..",
        "/containerLogs/shop/web/%2e%2e",
        "/containerLogs/shop/web/..%2f..%2fsecret",
    ] {
        assert_eq!(get(logs.address(), path).await.status, 404, "{path}");
    }
}
