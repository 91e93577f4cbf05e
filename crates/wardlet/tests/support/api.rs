//! An API server's HTTP face with answers that a real one gives too seldom to wait for: a state that it
//! forgot, a proxy's page, credentials that it refuses. It is no API server; what a real one does is in
//! `slow_check_cluster.rs`.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its path with its query, and its Authorization.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
}

/// Status and body for a request.
type Answers = dyn Fn(&Asked) -> (u16, String) + Send + Sync;

/// Listens until the test's process ends.
pub(crate) struct Api {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Api {
    pub(crate) fn start(answers: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, seen): (Arc<Answers>, _) = (Arc::new(answers), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                std::thread::spawn(move || serve(stream, &*answers, &seen));
            }
        });
        Self { address, asked }
    }

    pub(crate) fn server(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request to a connection.
fn serve(stream: TcpStream, answers: &Answers, seen: &Mutex<Vec<Asked>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut authorization = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.to_owned());
        }
    }
    let asked = Asked { path, authorization };
    let (status, body) = answers(&asked);
    seen.lock().unwrap().push(asked);
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// A failure as an API server says it.
pub(crate) fn status(code: u16, message: &str) -> (u16, String) {
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "code": code, "metadata": {}});
    (code, body.to_string())
}
