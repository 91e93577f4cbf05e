//! Exec, attach, port-forward and copies of files in pods of `wardlet agent`, with a real kubectl through a real API server, on the
//! built-in runtime and on containerd.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use testbed::Testbed;
use testkit::{Terminal, wait_for};

use crate::agent::{self, pod};
use crate::cluster::pods::bound_pod;
use crate::cluster::{Cluster, Runtime};

/// `true`: WebSockets from kubectl to the node, and there bridged to SPDY. `false`: SPDY all the way.
const WAYS: [&str; 2] = ["true", "false"];

/// Serves a page until it is asked to end.
const SERVES: &str =
    "mkdir /www; echo hello > /www/index.html; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
/// Repeats a line once.
const ECHOES: &str = "while read line; do echo \"read $line\"; done; exec sleep 1000";

/// Killed when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sessions in the pod `web`.
struct Sessions<'a> {
    testbed: &'a Testbed,
    dir: &'a Path,
}

impl Sessions<'_> {
    fn kubectl(&self, way: &str, arguments: &[&str]) -> Command {
        let mut command = self.testbed.command("kubectl");
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", way).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", way);
        command.args(arguments);
        command
    }

    fn session(&self, way: &str, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.kubectl(way, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        // A program that does not read its input may have ended.
        let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        output
    }

    /// The next line of an attached container, which goes on when the client leaves.
    fn attached(&self, way: &str, line: &str) -> String {
        let mut command = self.kubectl(way, &["attach", "-i", "web", "-c", "echoes", "--quiet"]);
        let mut attached = Ended(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        // Its input stays open until the answer is there.
        let mut input = attached.0.stdin.take().unwrap();
        writeln!(input, "{line}").unwrap();
        BufReader::new(attached.0.stdout.take().unwrap()).lines().next().unwrap().unwrap()
    }

    fn forward(&self, way: &str, ports: &str) -> Ended {
        Ended(self.kubectl(way, &["port-forward", "pod/web", ports]).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Commands, attachments, ports and copies, over both protocols.
    fn all(&self, lease: u64) {
        for (way, port) in WAYS.into_iter().zip(["18080", "18081"]) {
            let script = "cat; cat /proc/self/uid_map; echo words >&2; exit 3";
            let exec = ["exec", "-i", "web", "-c", "app", "--", "sh", "-c", script];
            let output = self.session(way, &exec, b"in and out\n");
            let (out, words) = texts(&output);
            assert_eq!(output.status.code(), Some(3), "{out}{words}");
            assert!(out.starts_with("in and out\n") && out.contains(&format!(" {lease} ")), "{out}{words}");
            assert!(words.starts_with("words\n"), "{words}");

            // More than any buffer on the way holds, and its end.
            let sent: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
            let output = self.session(way, &["exec", "-i", "web", "-c", "app", "--", "cat"], &sent);
            assert!(output.stdout == sent, "{way}: {} of {}", output.stdout.len(), sent.len());

            assert_eq!(self.attached(way, &format!("line {way}")), format!("read line {way}"));

            let _forward = self.forward(way, &format!("{port}:8080"));
            let page = wait_for("the forwarded port answers", || {
                let mut curl = self.testbed.command("curl");
                let url = format!("http://127.0.0.1:{port}/index.html");
                let output = curl.args(["-s", "--max-time", "5", &url]).output().unwrap();
                Some(texts(&output).0).filter(|page| !page.is_empty())
            });
            assert_eq!(page, "hello\n");

            let file = self.dir.join("there and back");
            std::fs::write(&file, format!("copied {way}")).unwrap();
            for copy in [
                ["cp", file.to_str().unwrap(), "web:/www/copy", "-c", "app"],
                ["cp", "web:/www/copy", file.with_extension("back").to_str().unwrap(), "-c", "app"],
            ] {
                let output = self.session(way, &copy, b"");
                assert!(output.status.success(), "{:?}", texts(&output));
            }
            assert_eq!(
                std::fs::read_to_string(file.with_extension("back")).unwrap(),
                format!("copied {way}")
            );

            let output = self.session(way, &["exec", "web", "-c", "app", "--", "/no/such/program"], b"");
            assert!(!output.status.success(), "{:?}", texts(&output));
        }
    }

    /// A shell, of which this is the command line, has a terminal with the size of kubectl's.
    fn shell(&self, way: &str, arguments: &[&str]) -> Option<i32> {
        let Terminal { mut near, far } = Terminal::open();
        tcsetwinsize(&far, size(33, 77)).unwrap();
        let inner = self.kubectl(way, arguments);
        // It becomes kubectl's own terminal, so that the kernel tells it of another size.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let end = || far.try_clone().unwrap();
        let mut child = Ended(command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap());
        // What is typed is shown by the terminal inside, and said with other letters by the shell.
        for (size, said) in [(size(33, 77), "ready"), (size(44, 88), "resized")] {
            tcsetwinsize(&far, size).unwrap();
            let wanted = format!("{} {}", size.ws_row, size.ws_col);
            let typed = said.replacen("re", "re''", 1);
            let line =
                format!("while [ \"$(stty size)\" != '{wanted}' ]; do sleep 0.1; done; echo {typed}\r");
            near.write_all(line.as_bytes()).unwrap();
            await_text(&mut near, said);
        }
        near.write_all(b"exit 5\r").unwrap();
        child.0.wait().unwrap().code()
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Reads until the text has come.
fn await_text(near: &mut File, wanted: &str) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = near.read(&mut piece).unwrap_or(0);
        assert!(read > 0, "never {wanted:?}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
}

/// The pod with containers beside `app`: one that repeats a line, and two shells with terminals, one for each way to attach.
fn with_company(mut web: Value) -> Value {
    let company = |name: &str, command: Value, tty: bool| {
        let mut container = web["spec"]["containers"][0].clone();
        container["name"] = json!(name);
        container["command"] = command;
        container["stdin"] = json!(true);
        container["tty"] = json!(tty);
        container
    };
    let added = [
        company("echoes", json!(["sh", "-c", ECHOES]), false),
        company("shell-true", json!(["sh"]), true),
        company("shell-false", json!(["sh"]), true),
    ];
    web["spec"]["containers"].as_array_mut().unwrap().extend(added);
    web
}

/// The counter of WebSockets that were bridged.
fn bridged(metrics: &str, subresource: &str) -> Option<f64> {
    let name = format!("kubelet_websocket_streaming_requests_total{{subresource=\"{subresource}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
}

#[test]
fn kubectl_runs_commands_attaches_copies_and_forwards_ports_over_both_protocols() {
    let cluster = agent::Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let mut web = pod("web");
    web["spec"].as_object_mut().unwrap().remove("volumes");
    let app = web["spec"]["containers"][0].as_object_mut().unwrap();
    app.remove("volumeMounts");
    app.insert("command".into(), json!(["sh", "-c", SERVES]));
    cluster.apply(&with_company(web));
    cluster.running("web");
    let lease = cluster.leases()[0]["uidMappings"][0]["hostId"].as_u64().unwrap();
    let sessions = Sessions { testbed: &cluster.testbed, dir: cluster.dir.path() };
    sessions.all(lease);
    for way in WAYS {
        assert_eq!(sessions.shell(way, &["exec", "-it", "web", "-c", "app", "--", "sh"]), Some(5));
        sessions.shell(way, &["attach", "-it", "web", "-c", &format!("shell-{way}")]);
    }
    cluster.delete("web");
}

/// No streaming server of containerd speaks what kubectl does with WebSockets.
#[test]
fn kubectl_has_its_sessions_on_containerd_over_both_protocols() {
    let (cluster, _agent) = Cluster::with_agent(Runtime::Containerd);
    cluster.apply(&with_company(bound_pod("web", SERVES)));
    cluster.await_ready_pods("web", 1);
    let lease = cluster.leases()[0]["uidMappings"][0]["hostId"].as_u64().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions { testbed: &cluster.testbed, dir: dir.path() };
    sessions.all(lease);
    for way in WAYS {
        assert_eq!(sessions.shell(way, &["exec", "-it", "web", "-c", "app", "--", "sh"]), Some(5));
        sessions.shell(way, &["attach", "-it", "web", "-c", &format!("shell-{way}")]);
    }
    let metrics = cluster.metrics();
    for subresource in ["exec", "attach", "portforward"] {
        assert!(bridged(&metrics, subresource) > Some(0.0), "{subresource}: {metrics}");
    }
    cluster.kubectl("delete pod web --timeout=60s");
    cluster.await_no_leases();
}
