//! Exec, attach, port-forward and copies of files in pods of `wardlet agent`, with a real kubectl through a real API server.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use testkit::{Terminal, wait_for};

use crate::agent::{Cluster, pod};

/// `true`: WebSockets as far as the API server goes. `false`: SPDY.
const WAYS: [&str; 2] = ["true", "false"];

/// Killed when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    fn session(&self, way: &str, arguments: &[&str], input: &str) -> Output {
        let mut command = self.testbed.command("kubectl");
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", way).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", way);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// The next line of an attached container, which goes on when the client leaves.
    fn attached(&self, way: &str, line: &str) -> String {
        let mut command = self.testbed.command("kubectl");
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", way);
        command.args(["attach", "-i", "web", "-c", "echoes", "--quiet"]);
        let mut attached = Ended(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        // Its input stays open until the answer is there.
        let mut input = attached.0.stdin.take().unwrap();
        writeln!(input, "{line}").unwrap();
        BufReader::new(attached.0.stdout.take().unwrap()).lines().next().unwrap().unwrap()
    }

    fn forward(&self, way: &str, ports: &str) -> Ended {
        let mut command = self.testbed.command("kubectl");
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", way).args(["port-forward", "pod/web", ports]);
        Ended(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn kubectl_runs_commands_attaches_copies_and_forwards_ports_over_both_protocols() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let mut web = pod("web");
    web["spec"].as_object_mut().unwrap().remove("volumes");
    let app = web["spec"]["containers"][0].as_object_mut().unwrap();
    app.remove("volumeMounts");
    let script =
        "mkdir /www; echo hello > /www/index.html; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    app.insert("command".into(), json!(["sh", "-c", script]));
    let mut echoes = web["spec"]["containers"][0].clone();
    echoes["name"] = json!("echoes");
    echoes["command"] = json!(["sh", "-c", "while read line; do echo \"read $line\"; done; exec sleep 1000"]);
    echoes["stdin"] = json!(true);
    web["spec"]["containers"].as_array_mut().unwrap().push(echoes);
    cluster.apply(&web);
    cluster.running("web");
    let lease = cluster.leases()[0]["uidMappings"][0]["hostId"].as_u64().unwrap();

    for (way, port) in WAYS.into_iter().zip(["18080", "18081"]) {
        let script = "cat; cat /proc/self/uid_map; echo words >&2; exit 3";
        let exec = ["exec", "-i", "web", "-c", "app", "--", "sh", "-c", script];
        let output = cluster.session(way, &exec, "in and out\n");
        let (out, words) = texts(&output);
        assert_eq!(output.status.code(), Some(3), "{out}{words}");
        assert!(out.starts_with("in and out\n") && out.contains(&format!(" {lease} ")), "{out}{words}");
        assert!(words.starts_with("words\n"), "{words}");

        assert_eq!(cluster.attached(way, &format!("line {way}")), format!("read line {way}"));

        let _forward = cluster.forward(way, &format!("{port}:8080"));
        let page = wait_for("the forwarded port answers", || {
            let mut curl = cluster.testbed.command("curl");
            let url = format!("http://127.0.0.1:{port}/index.html");
            let output = curl.args(["-s", "--max-time", "5", &url]).output().unwrap();
            Some(texts(&output).0).filter(|page| !page.is_empty())
        });
        assert_eq!(page, "hello\n");

        let file = cluster.dir.path().join("there and back");
        std::fs::write(&file, format!("copied {way}")).unwrap();
        for copy in [
            ["cp", file.to_str().unwrap(), "web:/www/copy", "-c", "app"],
            ["cp", "web:/www/copy", file.with_extension("back").to_str().unwrap(), "-c", "app"],
        ] {
            let output = cluster.session(way, &copy, "");
            assert!(output.status.success(), "{:?}", texts(&output));
        }
        assert_eq!(std::fs::read_to_string(file.with_extension("back")).unwrap(), format!("copied {way}"));

        let output = cluster.session(way, &["exec", "web", "-c", "app", "--", "/no/such/program"], "");
        assert!(!output.status.success(), "{:?}", texts(&output));
    }
    cluster.delete("web");
}

#[test]
fn a_command_has_the_terminal_of_kubectl_and_its_size() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let mut web = pod("web");
    web["spec"].as_object_mut().unwrap().remove("volumes");
    web["spec"]["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    cluster.apply(&web);
    cluster.running("web");
    let Terminal { mut near, far } = Terminal::open();
    tcsetwinsize(&far, size(33, 77)).unwrap();
    let mut inner = cluster.testbed.command("kubectl");
    inner.args(["exec", "-it", "web", "--", "sh"]);
    // It becomes kubectl's own terminal, so that the kernel tells it of another size.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let end = || far.try_clone().unwrap();
    let mut child = Ended(command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap());
    // What is typed is shown by the terminal inside, and said with other letters by the shell.
    near.write_all(b"while [ \"$(stty size)\" != '33 77' ]; do sleep 0.1; done; echo re''ady\r").unwrap();
    await_text(&mut near, "ready");
    tcsetwinsize(&far, size(44, 88)).unwrap();
    near.write_all(b"while [ \"$(stty size)\" != '44 88' ]; do sleep 0.1; done; echo re''sized\r").unwrap();
    await_text(&mut near, "resized");
    near.write_all(b"exit 5\r").unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(5));
    cluster.delete("web");
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
