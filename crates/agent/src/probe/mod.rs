//! Probes and lifecycle hooks of containers, one run at a time.

mod connect;
mod grpc;
mod http;
mod target;
mod tls;

use std::time::Duration;

use lifecycle::{HookKind, ProbeKind, Verdict};
use manifest::k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use manifest::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tracing::Instrument;
use types::GoDuration;

use self::http::Get;
use self::target::Scheme;
use crate::cri::calls::Cri;

/// As many characters of a command or of its output are in a message.
const MOST_SAID: usize = 1024;

/// How often a probe that cannot be run is tried before its verdict is an error.
const TRIES: u32 = 3;

/// A container whose probes and hooks can be run.
pub(crate) struct Asked<'a> {
    pub(crate) cri: &'a Cri,
    /// The runtime's ID of the container.
    pub(crate) id: &'a str,
    pub(crate) container: &'a Container,
    /// The pod's address: the target of probes that name no host.
    pub(crate) address: &'a str,
}

/// The verdict on a run, and the message of a failed one, or the warning of a successful one if it has one.
pub(crate) struct Ran {
    pub(crate) verdict: Verdict,
    pub(crate) words: String,
}

impl Ran {
    pub(crate) fn new(verdict: Verdict, words: impl Into<String>) -> Self {
        Self { verdict, words: words.into() }
    }

    fn of(outcome: Result<Option<String>, String>) -> Self {
        match outcome {
            Ok(warning) => Self::new(Verdict::Success, warning.unwrap_or_default()),
            Err(words) => Self::new(Verdict::Failure, words),
        }
    }
}

impl Asked<'_> {
    /// Runs a probe. A probe that cannot be run at all is tried again, [`TRIES`] times in total.
    pub(crate) async fn probe(&self, kind: ProbeKind, timeout: Duration) -> Ran {
        let probe = match kind {
            ProbeKind::Startup => self.container.startup_probe.as_ref(),
            ProbeKind::Liveness => self.container.liveness_probe.as_ref(),
            ProbeKind::Readiness => self.container.readiness_probe.as_ref(),
        };
        let Some(probe) = probe else { return Ran::new(Verdict::Error, "the container has no such probe") };
        let mut ran = self.probe_once(probe, timeout).await;
        for _ in 1..TRIES {
            if ran.verdict != Verdict::Error {
                break;
            }
            ran = self.probe_once(probe, timeout).await;
        }
        ran
    }

    async fn probe_once(&self, probe: &Probe, timeout: Duration) -> Ran {
        if let Some(exec) = &probe.exec {
            let command = exec.command.as_deref().unwrap_or_default();
            return run_command(self.cri, self.id, command, timeout).await;
        }
        let asked = async {
            if let Some(get) = &probe.http_get {
                self.get(get).await
            } else if let Some(tcp) = &probe.tcp_socket {
                self.connect(tcp.host.as_deref(), &tcp.port).await.map(|()| None)
            } else if let Some(grpc) = &probe.grpc {
                let port = u16::try_from(grpc.port).unwrap_or(0);
                let service = grpc.service.as_deref().unwrap_or_default();
                grpc::check(self.address, port, service).await.map(|()| None)
            } else {
                Err("the probe has no handler: set exec, grpc, httpGet or tcpSocket".to_owned())
            }
        };
        match tokio::time::timeout(timeout, asked).await {
            Ok(outcome) => Ran::of(outcome),
            Err(_) => Ran::new(Verdict::Failure, format!("no answer within {} s", timeout.as_secs())),
        }
    }

    /// Runs a hook for at most `limit`.
    pub(crate) async fn hook(&self, kind: HookKind, limit: Option<Duration>) -> Ran {
        let hooks = self.container.lifecycle.as_ref();
        let hook = hooks.and_then(|hooks| match kind {
            HookKind::PostStart => hooks.post_start.as_ref(),
            HookKind::PreStop => hooks.pre_stop.as_ref(),
        });
        let Some(hook) = hook else { return Ran::new(Verdict::Success, "") };
        let run = self.hook_once(hook, limit);
        match limit {
            None => run.await,
            Some(limit) => match tokio::time::timeout(limit, run).await {
                Ok(ran) => ran,
                Err(_) => Ran::new(Verdict::Failure, format!("not done within {} s", limit.as_secs())),
            },
        }
    }

    /// Runs a hook to its end. The runtime sets no limit to a command: the caller stops waiting instead, as a kubelet
    /// does.
    async fn hook_once(&self, hook: &LifecycleHandler, limit: Option<Duration>) -> Ran {
        if let Some(exec) = &hook.exec {
            let (cri, id) = (self.cri.clone(), self.id.to_owned());
            let command = exec.command.clone().unwrap_or_default();
            // A caller that stops waiting does not end the command: it runs on until its container stops, as with a kubelet.
            // Should the runtime not answer even then, nothing here waits for it for ever.
            let most = limit.map_or(Duration::MAX, |limit| limit.saturating_add(cri.timeout));
            let run = async move {
                let run = run_command(&cri, &id, &command, Duration::ZERO);
                let late = |_| Ran::new(Verdict::Failure, "the runtime does not answer");
                tokio::time::timeout(most, run).await.unwrap_or_else(late)
            };
            let running = tokio::spawn(run.in_current_span());
            let ran = running.await.unwrap_or_else(|cause| Ran::new(Verdict::Failure, cause.to_string()));
            let verdict = if ran.verdict == Verdict::Error { Verdict::Failure } else { ran.verdict };
            return Ran { verdict, ..ran };
        }
        if let Some(sleep) = &hook.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
            return Ran::new(Verdict::Success, "");
        }
        match &hook.http_get {
            Some(get) => Ran::of(self.get(get).await),
            // As in the kubelet, a tcpSocket hook does nothing.
            None => Ran::new(Verdict::Success, ""),
        }
    }

    async fn get(&self, get: &HTTPGetAction) -> Result<Option<String>, String> {
        let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(self.address);
        let port = self.port(&get.port)?;
        let headers = get.http_headers.iter().flatten().map(|h| (h.name.as_str(), h.value.as_str()));
        let path = get.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        let (scheme, headers) = (Scheme::of(get.scheme.as_deref()), headers.collect::<Vec<_>>());
        Get { scheme, host, port, path, headers: &headers }.ask().await
    }

    async fn connect(&self, host: Option<&str>, port: &IntOrString) -> Result<(), String> {
        let host = host.filter(|host| !host.is_empty()).unwrap_or(self.address);
        let port = self.port(port)?;
        connect::connect(host, port).await.map(drop).map_err(|e| format!("{host}:{port}: {e}"))
    }

    /// Resolves a port number, or the name of one of the container's ports.
    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let mut named = self.container.ports.iter().flatten();
                let found = named.find(|p| p.name.as_deref() == Some(name)).map(|p| p.container_port);
                found.or_else(|| name.parse().ok())
            }
        };
        number.and_then(|n| u16::try_from(n).ok()).ok_or_else(|| format!("there is no port {port:?}"))
    }
}

async fn run_command(cri: &Cri, id: &str, command: &[String], limit: Duration) -> Ran {
    match cri.exec(id, command, limit).await {
        Ok(done) if done.exit_code == 0 => Ran::new(Verdict::Success, ""),
        Ok(done) => {
            let said = [done.stdout, done.stderr].concat();
            let said: String = String::from_utf8_lossy(&said).chars().take(MOST_SAID).collect();
            Ran::new(Verdict::Failure, format!("exit code {}: {}", done.exit_code, said.trim()))
        }
        // The runtime's deadline, or the caller's if the runtime does not keep its own.
        Err(crate::Error::Call(
            cri::CallError::DeadlineExceeded { .. }
            | cri::CallError::Refused { code: cri::Code::DeadlineExceeded, .. },
        )) => Ran::new(Verdict::Failure, timed_out(command, limit)),
        Err(error) => Ran::new(Verdict::Error, error.to_string()),
    }
}

/// What a kubelet says of a command that ran out of time.
fn timed_out(command: &[String], limit: Duration) -> String {
    let command: String = command.join(" ").chars().take(MOST_SAID).collect();
    format!("command timed out: {} timed out after {}", go_quoted(&command), GoDuration::from(limit))
}

/// The text in quotes as Go's `%q` writes it.
fn go_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('"' | '\\', _) => out.extend(['\\', c]),
            ('\n', _) => out.push_str("\\n"),
            ('\r', _) => out.push_str("\\r"),
            ('\t', _) => out.push_str("\\t"),
            (_, 0x07) => out.push_str("\\a"),
            (_, 0x08) => out.push_str("\\b"),
            (_, 0x0b) => out.push_str("\\v"),
            (_, 0x0c) => out.push_str("\\f"),
            (_, number @ (..0x20 | 0x7f)) => out.push_str(&format!("\\x{number:02x}")),
            (_, number @ ..0x1_0000) if !is_printable(c) => out.push_str(&format!("\\u{number:04x}")),
            (_, number) if !is_printable(c) => out.push_str(&format!("\\U{number:08x}")),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a character has a shape of its own.
fn is_printable(c: char) -> bool {
    c == ' ' || c.is_alphanumeric() || c.escape_debug().eq([c]) && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use cri::image_service_server::ImageService;
    use cri::runtime_service_server::RuntimeService;
    use cri::server::Services;
    use cri::{ExecSyncRequest, ExecSyncResponse, Request, Response, Status};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::metrics::Metrics;

    /// The pod's address in these tests: no host has it (TEST-NET-1).
    const NOBODY: &str = "192.0.2.1";

    fn cri_of(client: cri::client::Client) -> Cri {
        let metrics = Metrics::register(&telemetry::metrics::Registry::default()).unwrap().runtime;
        let owned = crate::owned::Owned::new(crate::instance::InstanceId::for_test("instance-1"), None);
        Cri { client, owned, journal: None, metrics, timeout: Duration::from_secs(5) }
    }

    async fn ran(probe: &str) -> Verdict {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let text = format!(r#"{{"name":"a","readinessProbe":{}}}"#, probe.replace("PORT", &port.to_string()));
        let container: Container = serde_json::from_str(&text).unwrap();
        // These probes send no request to the runtime.
        let (ours, _theirs) = tokio::io::duplex(4096);
        let cri = cri_of(cri::client::Client::over(ours).await.unwrap());
        let serving = async {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 1024];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            }
        };
        let asked = Asked { cri: &cri, id: "none", container: &container, address: NOBODY };
        tokio::select! {
            () = serving => Verdict::Error,
            ran = asked.probe(ProbeKind::Readiness, Duration::from_millis(500)) => ran.verdict,
        }
    }

    #[tokio::test]
    async fn whoever_is_named_is_asked_and_not_the_pod() {
        assert_eq!(ran(r#"{"tcpSocket":{"host":"127.0.0.1","port":PORT}}"#).await, Verdict::Success);
        assert_eq!(ran(r#"{"httpGet":{"host":"127.0.0.1","port":PORT}}"#).await, Verdict::Success);
        assert_eq!(ran(r#"{"tcpSocket":{"port":PORT}}"#).await, Verdict::Failure);
        assert_eq!(ran(r#"{"httpGet":{"port":PORT}}"#).await, Verdict::Failure);
    }

    /// Answers no ExecSync, or that its deadline is over.
    struct Slow {
        keeps_deadline: bool,
    }

    #[tonic::async_trait]
    impl RuntimeService for Slow {
        async fn exec_sync(&self, _: Request<ExecSyncRequest>) -> Result<Response<ExecSyncResponse>, Status> {
            if self.keeps_deadline {
                return Err(Status::deadline_exceeded("the command did not end within 90s"));
            }
            std::future::pending().await
        }
    }

    struct NoImages;

    impl ImageService for NoImages {}

    /// The verdict was an error, which is tried again, if the runtime did not keep the deadline; and the event had the words of the
    /// runtime.
    #[tokio::test(start_paused = true)]
    async fn an_exec_probe_fails_at_its_deadline_in_a_kubelets_words() {
        for keeps_deadline in [true, false] {
            let (ours, theirs) = tokio::io::duplex(4096);
            let services = Services { runtime: Slow { keeps_deadline }, images: NoImages };
            let serving = tokio::spawn(services.serve_over(theirs, std::future::pending()));
            let cri = cri_of(cri::client::Client::over(ours).await.unwrap());
            let command = r#"["sh","-c","echo \"a\tb\"; sleep 99"]"#;
            let text = format!(r#"{{"name":"a","livenessProbe":{{"exec":{{"command":{command}}}}}}}"#);
            let container: Container = serde_json::from_str(&text).unwrap();
            let asked = Asked { cri: &cri, id: "c", container: &container, address: NOBODY };
            let begun = tokio::time::Instant::now();
            let ran = asked.probe(ProbeKind::Liveness, Duration::from_secs(90)).await;
            assert_eq!(ran.verdict, Verdict::Failure, "{}", ran.words);
            let words = r#"command timed out: "sh -c echo \"a\tb\"; sleep 99" timed out after 1m30s"#;
            assert_eq!(ran.words, words);
            let expected = Duration::from_secs(if keeps_deadline { 0 } else { 90 + 5 });
            assert_eq!(begun.elapsed().as_secs(), expected.as_secs(), "it is tried once");
            serving.abort();
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("sleep 10", r#""sleep 10""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
            ("ä→日", r#""ä→日""#),
            ("\u{a0}\u{200b}\u{feff}\u{85}", r#""\u00a0\u200b\ufeff\u0085""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(go_quoted(text), quoted);
        }
    }
}
