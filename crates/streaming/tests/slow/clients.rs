//! Kubernetes' own clients (testbed/peers/streaming-client), as kubectl, the API server and critest use them.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command as Build, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use support::{Seen, attach, echo, exec, exec_tty, ports, see, serve};
use tokio::process::{Child, Command};

/// All that a command can be run over.
const COMMANDS: [&str; 4] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "spdy"];

/// Those that can close their input.
const CLOSING: [&str; 2] = ["v5.channel.k8s.io", "spdy"];

/// All that ports can be forwarded over.
const FORWARDS: [&str; 2] = ["spdy", "tunnel"];

/// The client program, built once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/peers/streaming-client");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("streaming-client");
        let built = Build::new("go")
            .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"])
            .arg(&program)
            .arg(".")
            .env("GOTOOLCHAIN", "local")
            .current_dir(source)
            .status()
            .expect("Go is needed to build Kubernetes' clients");
        assert!(built.success(), "the client cannot be built");
        program
    })
}

fn client(args: &[&str]) -> Child {
    Command::new(program())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What the client prints.
async fn outcome(args: &[&str]) -> Value {
    let ended = tokio::time::timeout(Duration::from_secs(120), client(args).wait_with_output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{args:?} does not end")).unwrap();
    assert!(output.status.success(), "{args:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_output_and_error_output_arrive_over_every_protocol() {
    let (server, _) = serve().await;
    for transport in COMMANDS {
        let mut request = exec(&["sh", "-c", "echo out; echo err >&2; exit 7"]);
        request.stdin = false;
        let url = server.exec(request).unwrap();
        let outcome = outcome(&["command", transport, &url]).await;
        assert_eq!(outcome["stdout"]["text"], "out\n", "{transport}: {outcome}");
        assert_eq!(outcome["stderr"]["text"], "err\n", "{transport}: {outcome}");
        let text = "command terminated with exit code 7";
        assert!(outcome["error"].as_str().unwrap().ends_with(text), "{transport}: {outcome}");
        if transport != "v3.channel.k8s.io" {
            assert_eq!(outcome["code"], 7, "{transport}: {outcome}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn success_is_no_error_over_every_protocol() {
    let (server, _) = serve().await;
    for transport in COMMANDS {
        let mut request = exec(&["echo", "fine"]);
        (request.stdin, request.stderr) = (false, false);
        let url = server.exec(request).unwrap();
        let outcome = outcome(&["command", transport, "-stderr=false", &url]).await;
        assert_eq!(outcome["stdout"]["text"], "fine\n", "{transport}: {outcome}");
        assert_eq!((&outcome["code"], &outcome["error"]), (&Value::from(0), &Value::from("")), "{transport}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_mebibytes_come_back_as_they_were() {
    let (server, _) = serve().await;
    for transport in CLOSING {
        let url = server.exec(exec(&["cat"])).unwrap();
        let outcome = outcome(&["command", transport, "-stdin", "33554432", &url]).await;
        assert_eq!(outcome["stdout"]["bytes"], 33_554_432, "{transport}: {}", outcome["error"]);
        assert_eq!(outcome["stdout"]["sha256"], outcome["sent"], "{transport}");
        assert_eq!(outcome["error"], "", "{transport}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_end_while_its_client_still_sends() {
    let (server, _) = serve().await;
    for transport in CLOSING {
        let url = server.exec(exec(&["sh", "-c", "head -c 100000 | wc -c; exit 4"])).unwrap();
        let outcome = outcome(&["command", transport, "-stdin", "33554432", &url]).await;
        assert_eq!(outcome["stdout"]["text"].as_str().unwrap().trim(), "100000", "{transport}: {outcome}");
        assert_eq!(outcome["code"], 4, "{transport}: {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_end_while_its_client_keeps_the_input_open() {
    let (server, _) = serve().await;
    for transport in COMMANDS {
        let url = server.exec(exec(&["head", "-c", "10"])).unwrap();
        let outcome = outcome(&["command", transport, "-stdin", "10", "-keep-open", &url]).await;
        assert_eq!(outcome["stdout"]["bytes"], 10, "{transport}: {outcome}");
        assert_eq!(outcome["error"], "", "{transport}: {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminals_sizes_arrive() {
    let (server, _) = serve().await;
    for transport in COMMANDS {
        let mut request = exec_tty(&["sizes", "1"]);
        request.stdin = false;
        let url = server.exec(request).unwrap();
        let args = ["command", transport, "-tty", "-stderr=false", "-sizes", "132x43", &url];
        assert_eq!(outcome(&args).await["stdout"]["text"], "132x43\n", "{transport}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_carries_both_ways() {
    let (server, _) = serve().await;
    for transport in CLOSING {
        let url = server.attach(attach("echo")).unwrap();
        let outcome = outcome(&["command", transport, "-stderr=false", "-stdin", "1000000", &url]).await;
        assert_eq!(outcome["stdout"]["sha256"], outcome["sent"], "{transport}: {}", outcome["error"]);
        let url = server.attach(attach("missing")).unwrap();
        let failed = self::outcome(&["command", transport, "-stderr=false", "-stdin", "0", &url]).await;
        assert!(failed["error"].as_str().unwrap().ends_with("no such container"), "{transport}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_connections_to_a_port_at_once_carry_what_was_sent() {
    let (server, _) = serve().await;
    let port = echo().await.to_string();
    for transport in FORWARDS {
        let url = server.port_forward(ports(&[])).unwrap();
        let args = ["forward", transport, "-port", &port, "-connections", "10", "-bytes", "2097152", &url];
        let outcome = outcome(&args).await;
        assert_eq!(outcome["same"], 10, "{transport}: {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_where_nobody_listens_ends_the_connection() {
    let (server, _) = serve().await;
    for transport in FORWARDS {
        let url = server.port_forward(ports(&[])).unwrap();
        let child =
            Command::new(program()).args(["forward", transport, "-port", "1", "-bytes", "1", &url]).output();
        let output = tokio::time::timeout(Duration::from_secs(60), child).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("error forwarding port 1 to pod s: Connection refused"), "{transport}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_in_the_middle_ends_its_command() {
    let (server, mut seen) = serve().await;
    for transport in CLOSING {
        for command in [&["wait"][..], &["flood"], &["sleep", "1000"]] {
            let url = server.exec(exec(command)).unwrap();
            let mut child = client(&["command", transport, "-stdin", "1000000000000", &url]);
            see(&mut seen, &Seen::Began("exec")).await;
            child.start_kill().unwrap();
            child.wait().await.unwrap();
            see(&mut seen, &Seen::ClientGone).await;
            see(&mut seen, &Seen::Ended("exec")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_in_the_middle_ends_the_input_of_its_command() {
    let (server, mut seen) = serve().await;
    for transport in CLOSING {
        let url = server.exec(exec(&["cat"])).unwrap();
        let mut child = client(&["command", transport, "-stdin", "1000000000000", &url]);
        see(&mut seen, &Seen::Began("exec")).await;
        child.start_kill().unwrap();
        child.wait().await.unwrap();
        see(&mut seen, &Seen::Ended("exec")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_in_the_middle_ends_its_connections() {
    let (server, mut seen) = serve().await;
    let port = echo().await.to_string();
    for transport in FORWARDS {
        let url = server.port_forward(ports(&[])).unwrap();
        let args =
            ["forward", transport, "-port", &port, "-connections", "3", "-bytes", "1000000000000", &url];
        let mut child = client(&args);
        for _ in 0..3 {
            see(&mut seen, &Seen::Began("port_forward")).await;
        }
        child.start_kill().unwrap();
        child.wait().await.unwrap();
        for _ in 0..3 {
            see(&mut seen, &Seen::Ended("port_forward")).await;
        }
    }
}
