//! Exec, attach, port-forward and run, with a runtime that is played: it speaks HTTP and repeats what it gets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use agent::InstanceView;
use kubelet_api::{Call, RunOutput, Session, StreamError, Streams, Wanted};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Identity, OnePod, config, connect, nowhere, running, send, start_with};

const OPEN: &str = "authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n";
const UPGRADE: &str =
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";

/// Says at which URL sessions are, and keeps what was asked.
struct Played {
    at: SocketAddr,
    asked: Mutex<Vec<Session>>,
}

impl Streams for Played {
    fn url(&self, session: Session) -> Call<'_, String> {
        self.asked.lock().unwrap().push(session);
        let at = self.at;
        Box::pin(async move { Ok(format!("http://{at}/exec/a-token")) })
    }

    fn run(&self, container: String, command: Vec<String>) -> Call<'_, RunOutput> {
        Box::pin(async move {
            match command[0].as_str() {
                "fails" => Ok(RunOutput { stderr: b"words\n".to_vec(), code: 3, ..RunOutput::default() }),
                "none" => Err(StreamError::NotFound("no such container".to_owned())),
                _ => Ok(RunOutput {
                    stdout: format!("{container}: {command:?}\n").into(),
                    ..RunOutput::default()
                }),
            }
        })
    }
}

/// A runtime that answers with this head, then repeats all it gets; the heads of the requests.
async fn runtime(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                kept.lock().unwrap().push(String::from_utf8(head).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                kept.lock().unwrap().push("ended".to_owned());
            });
        }
    });
    (at, heads)
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";

struct Served {
    _dir: tempfile::TempDir,
    server: kubelet_api::Server,
    pod: Arc<OnePod>,
    played: Arc<Played>,
    heads: Arc<Mutex<Vec<String>>>,
}

async fn serve(answer: &'static str) -> Served {
    serve_with(answer, "").await
}

async fn serve_with(answer: &'static str, fields: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let (at, heads) = runtime(answer).await;
    let played = Arc::new(Played { at, asked: Mutex::default() });
    let pod = OnePod::new(dir.path());
    let streams = Arc::clone(&played) as Arc<dyn Streams>;
    let pods = Arc::clone(&pod) as Arc<dyn kubelet_api::Pods>;
    let server =
        start_with(&config(dir.path(), &format!("{OPEN}{fields}")), dir.path(), nowhere(), pods, streams)
            .await;
    Served { _dir: dir, server, pod, played, heads }
}

fn instance() -> InstanceView {
    InstanceView { id: "c-1".into(), image: "i".into(), image_id: "i@1".into(), user: None }
}

/// Sends the request with HTTP/1.1 and reads the head of the answer.
async fn ask(
    served: &Served,
    request: &str,
    headers: &str,
) -> (String, impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + use<>) {
    let mut stream = connect(served.server.address.unwrap(), &Identity::default()).await;
    let text = format!("{request} HTTP/1.1\r\nHost: node0\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap().to_lowercase(), stream)
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_credentials_do_not() {
    let served = serve(SWITCHED).await;
    served.pod.set_instance(running(), instance());
    let request = "POST /exec/shop/web/app?command=sh&command=-c&command=a+b&input=1&output=1&error=1&tty=1";
    let headers = format!("Authorization: Bearer secret\r\nCookie: secret\r\nContent-Length: 0\r\n{UPGRADE}");
    let (head, mut stream) = ask(&served, request, &headers).await;
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: spdy/3.1\r"), "{head}");
    assert!(head.contains("x-stream-protocol-version: v4.channel.k8s.io\r"), "{head}");
    stream.write_all(b"there and back").await.unwrap();
    let mut back = [0; 14];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"there and back");
    let wanted = Wanted { stdin: true, stdout: true, stderr: false, tty: true };
    let command = ["sh", "-c", "a b"].map(str::to_owned).to_vec();
    let expected = Session::Exec { container: "c-1".into(), command, wanted };
    assert_eq!(*served.played.asked.lock().unwrap(), [expected]);
    let to_runtime = served.heads.lock().unwrap()[0].to_lowercase();
    assert!(to_runtime.starts_with("post /exec/a-token http/1.1\r\n"), "{to_runtime}");
    assert!(to_runtime.contains("x-stream-protocol-version: v4.channel.k8s.io\r"), "{to_runtime}");
    assert!(!to_runtime.contains("secret") && !to_runtime.contains("shop"), "{to_runtime}");
    // The runtime's side ends with the client.
    drop(stream);
    let ended = async {
        while served.heads.lock().unwrap().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), ended).await.unwrap();
}

#[tokio::test]
async fn a_web_socket_asks_with_get_and_ports_are_named_beforehand() {
    let served = serve(SWITCHED).await;
    served.pod.set_instance(running(), instance());
    let headers =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n";
    let (head, _stream) = ask(&served, "GET /portForward/shop/web/u-1?port=80,443&port=81", headers).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let (head, _stream) = ask(&served, "GET /attach/shop/web/app?output=1&tty=1", headers).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    // The container has no terminal, whatever the client says.
    let wanted = Wanted { stdin: false, stdout: true, stderr: false, tty: false };
    assert_eq!(
        *served.played.asked.lock().unwrap(),
        [
            Session::PortForward { uid: "u-1".into(), ports: vec![80, 443, 81] },
            Session::Attach { container: "c-1".into(), wanted },
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_a_session_is_refused_before_the_runtime_is_asked() {
    let served = serve(SWITCHED).await;
    let address = served.server.address.unwrap();
    let exec = "/exec/shop/web/app?command=id&output=1";
    for (request, headers, status, words) in [
        (&format!("POST {exec}")[..], UPGRADE, 500, "container \"app\" is not running"),
        ("POST /exec/shop/web/other?command=id&output=1", UPGRADE, 500, "container not found (\"other\")"),
        ("POST /exec/shop/none/app?command=id&output=1", UPGRADE, 404, "pod does not exist"),
        ("POST /exec/other/web/app?command=id&output=1", UPGRADE, 404, "pod does not exist"),
        ("POST /exec/shop/web/u-2/app?command=id&output=1", UPGRADE, 404, "pod does not exist"),
        ("POST /portForward/shop/web/u-2", UPGRADE, 404, "pod does not exist"),
        (
            "POST /exec/shop/web/app?command=id",
            UPGRADE,
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("POST /exec/shop/web/app?output=1", UPGRADE, 400, "you must specify at least 1 command"),
        ("POST /portForward/shop/web?port=x", UPGRADE, 400, "port must be a number"),
        (&format!("PUT {exec}"), UPGRADE, 405, "Method Not Allowed"),
        ("GET /run/shop/web/app?cmd=id", "", 405, "Method Not Allowed"),
        ("POST /run/shop/web/app", "", 400, "you must specify cmd"),
        ("POST /portForward/shop/web", "", 400, "Upgrade request required"),
    ] {
        let answer = send(address, &Identity::default(), request, headers).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, words), "{request}");
    }
    served.pod.set_instance(running(), instance());
    let plain = send(address, &Identity::default(), &format!("GET {exec}"), "").await;
    assert_eq!((plain.status, plain.body.as_str()), (400, "Upgrade request required"));
    assert_eq!(*served.played.asked.lock().unwrap(), []);
}

#[tokio::test]
async fn a_session_without_a_byte_ends_after_the_configured_time() {
    let served = serve_with(SWITCHED, "streamingConnectionIdleTimeout: 2s\n").await;
    served.pod.set_instance(running(), instance());
    let (head, mut stream) = ask(&served, "POST /exec/shop/web/app?command=id&input=1", UPGRADE).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        stream.write_all(b"a").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
    }
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), stream.read_u8()).await;
    assert!(ended.unwrap().is_err() && begun.elapsed().as_secs() >= 4, "{:?}", begun.elapsed());
}

/// Users by certificate, each with an identity of its own.
fn users(dir: &std::path::Path, names: [&str; 2]) -> [Identity; 2] {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    names.map(|name| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        Identity::pem(&params.signed_by(&key, &issuer).unwrap().pem(), &key.serialize_pem())
    })
}

#[tokio::test]
async fn a_user_cannot_hold_the_sessions_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let [jane, joe] = users(dir.path(), ["jane", "joe"]);
    let (at, _) = runtime(SWITCHED).await;
    let played = Arc::new(Played { at, asked: Mutex::default() });
    let pod = OnePod::new(dir.path());
    pod.set_instance(running(), instance());
    let authority = dir.path().join("ca.crt");
    let fields = format!(
        "authentication: {{x509: {{clientCAFile: {}}}, webhook: {{enabled: false}}}}\nauthorization: {{mode: AlwaysAllow}}\n",
        authority.display()
    );
    let server = start_with(&config(dir.path(), &fields), dir.path(), nowhere(), pod, played).await;
    let address = server.address.unwrap();
    let open = async |identity: &Identity| {
        let mut stream = connect(address, identity).await;
        let request = "POST /exec/shop/web/app?command=id&output=1 HTTP/1.1\r\nHost: node0\r\n";
        stream.write_all(format!("{request}{UPGRADE}\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (String::from_utf8(head).unwrap().to_lowercase(), stream)
    };
    let mut held = Vec::new();
    let refused = loop {
        let (head, stream) = open(&jane).await;
        if !head.starts_with("http/1.1 101 ") {
            break head;
        }
        held.push(stream);
    };
    assert!(refused.starts_with("http/1.1 429 ") && refused.contains("\nretry-after: 10\r"), "{refused}");
    assert!(held.len() > 1, "{}", held.len());
    assert!(open(&joe).await.0.starts_with("http/1.1 101 "));
    held.clear();
    let mut head = String::new();
    for _ in 0..100 {
        head = open(&jane).await.0;
        if head.starts_with("http/1.1 101 ") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("jane's places are not free again: {head}");
}

#[tokio::test]
async fn a_refusal_of_the_runtime_reaches_the_client() {
    let served = serve("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nno stream").await;
    served.pod.set_instance(running(), instance());
    let (head, mut stream) = ask(&served, "POST /exec/shop/web/app?command=id&output=1", UPGRADE).await;
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    let mut body = [0; 9];
    stream.read_exact(&mut body).await.unwrap();
    assert_eq!(&body, b"no stream");
}

#[tokio::test]
async fn a_command_without_a_session_answers_with_all_that_it_wrote() {
    let served = serve(SWITCHED).await;
    served.pod.set_instance(running(), instance());
    let address = served.server.address.unwrap();
    let typed =
        send(address, &Identity::default(), "POST /run/shop/web/app?cmd=id", "Content-Length: 0\r\n").await;
    assert!(typed.headers.contains("\ncontent-type: application/json\r"), "{typed:?}");
    for (command, status, words) in [
        ("cat%20/etc/hosts", 200, "c-1: [\"cat\", \"/etc/hosts\"]\n"),
        ("fails", 500, "command terminated with exit code 3\nwords\n"),
        ("none", 404, "no such container"),
    ] {
        let request = format!("POST /run/shop/web/app?cmd={command}");
        let answer = send(address, &Identity::default(), &request, "Content-Length: 0\r\n").await;
        assert_eq!((answer.status, answer.body.as_str()), (status, words), "{command}");
    }
}
