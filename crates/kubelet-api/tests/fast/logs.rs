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

/// Nothing is sent while every line is filtered out, and the reader does not catch up with the container.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_gone_is_noticed_while_nothing_is_sent() {
    let logs = Logs::start().await;
    logs.append("0.log", &["1Z stdout F one"]);
    logs.pod.set(running(), 0);
    let path = logs.dir.path().join("logs/pod/app/0.log");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (is_over, file) = (std::sync::Arc::clone(&stop), path.clone());
    let writer = std::thread::spawn(move || {
        let text = "2026-03-01T12:30:02Z stdout F again\n".repeat(20_000);
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            OpenOptions::new().append(true).open(&file).unwrap().write_all(text.as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let mut stream = connect(logs.address(), &Identity::default()).await;
    let query = "?follow=true&sinceTime=2099-01-01T00:00:00Z";
    let request = format!("GET {PATH}{query} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    drop(stream);
    let readers = || {
        let own = fs::read_dir("/proc/self/fd").unwrap().flatten();
        // Those that read: the writer's descriptor comes and goes.
        own.filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
            .filter(|entry| {
                let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
                fs::read_to_string(info).is_ok_and(|text| {
                    text.lines().any(|line| line.starts_with("flags:") && line.ends_with('0'))
                })
            })
            .count()
    };
    let mut left = 0;
    for _ in 0..100 {
        left = readers();
        if left == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(left, 0, "the log is still read for a client that has gone");
}
