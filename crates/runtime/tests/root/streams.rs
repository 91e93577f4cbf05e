//! Exec, attach and port-forward through the URLs that a real server gives out, and the log.

use crate::support;

use std::path::Path;
use std::time::Duration;

use cri::Code;
use cri::client::Client;
use support::pods::{
    create, ended, exec, in_users, logged, pod, remove_pod, run_pod, run_shell, shell, start,
};
use support::websocket::{STDERR, STDIN, STDOUT, Session};
use support::{House, Options, until};

const FIRST: u32 = 1_310_720_000;

fn asked(container: &str, script: &str) -> cri::ExecRequest {
    let cmd = ["sh", "-c", script].map(str::to_owned).to_vec();
    let container_id = container.to_owned();
    cri::ExecRequest { container_id, cmd, tty: false, stdin: true, stdout: true, stderr: true }
}

async fn open(house: &House, client: &Client, request: cri::ExecRequest) -> Session {
    let url = client.runtime().exec(request).await.unwrap().into_inner().url;
    Session::open(house, &url).await
}

async fn attach(house: &House, client: &Client, container: &str, tty: bool) -> Session {
    let request =
        cri::AttachRequest { container_id: container.into(), stdin: true, tty, stdout: true, stderr: !tty };
    let url = client.runtime().attach(request).await.unwrap().into_inner().url;
    Session::open(house, &url).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_streams_and_its_code() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "exec"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();

    let mut session = open(&house, &client, asked(&container, "cat; echo err >&2; id -u; exit 3")).await;
    session.send(STDIN, b"in ").await;
    session.send(STDIN, b"more\n").await;
    session.close_input().await;
    let rest = session.rest().await;
    assert_eq!(String::from_utf8_lossy(&rest.stdout), "in more\n0\n");
    assert_eq!((rest.stderr.as_slice(), rest.code()), (&b"err\n"[..], 3));

    let quiet = cri::ExecRequest { stdin: false, stderr: false, ..asked(&container, "kill -9 $$") };
    assert_eq!(open(&house, &client, quiet).await.rest().await.code(), 137);

    let mut missing = asked(&container, "");
    missing.cmd = vec!["/no/such/program".into()];
    let status = open(&house, &client, missing).await.rest().await.status();
    assert!(status["message"].as_str().unwrap().contains("/no/such/program"), "{status}");

    remove_pod(&client, &sandbox).await;
    let gone = client.runtime().exec(asked(&container, "true")).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

/// Output was once cut when the client had not taken it two seconds after the command's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_slow_gets_all_output() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "slow"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    // So little is on the way that the last of it waits in the command's pipe, whatever that is.
    for side in ["rmem", "wmem"] {
        let script = format!("echo 4096 4096 4096 > /proc/sys/net/ipv4/tcp_{side}");
        assert!(house.inside(Path::new("sh")).args(["-c", &script]).status().unwrap().success());
    }
    let mut sessions = vec![];
    for size in [64, 96, 128, 192].map(|size| size << 10) {
        let much = asked(&container, &format!("yes | head -c {size}"));
        sessions.push((size, open(&house, &client, much).await));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (size, session) in sessions {
        let rest = session.rest().await;
        assert_eq!((rest.stdout.len(), rest.code()), (size, 0));
    }
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_with_a_terminal_learns_its_size() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "tty"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let script =
        "trap 'stty size' WINCH; tty; echo up; while :; do read line; [ \"$line\" = end ] && exit 6; done";
    let request = cri::ExecRequest { tty: true, stderr: false, ..asked(&container, script) };
    let mut session = open(&house, &client, request).await;
    let text = session.wait_for(STDOUT, "up").await;
    assert!(text.contains("/dev/pts/"), "{text}");
    session.resize(123, 45).await;
    let text = session.wait_for(STDOUT, "45 123").await;
    session.send(STDIN, b"end\n").await;
    let rest = session.rest().await;
    let text = text + &String::from_utf8_lossy(&rest.stdout);
    assert!(text.contains("45 123\r\n"), "a terminal ends its lines with two characters: {text:?}");
    assert_eq!(rest.code(), 6);
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_goes_with_its_client() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "gone"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let running = async || {
        let seen = exec(&client, &container, "ps | grep '[s]leep 4321' || true").await.unwrap();
        !seen.stdout.is_empty()
    };
    for tty in [false, true] {
        let request = cri::ExecRequest { tty, stderr: !tty, ..asked(&container, "echo up; exec sleep 4321") };
        let mut session = open(&house, &client, request).await;
        session.wait_for(STDOUT, "up").await;
        until("it runs", async || running().await.then_some(())).await;
        drop(session);
        until("it is gone", async || (!running().await).then_some(())).await;
    }
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_attaches_has_the_containers_own_streams() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "attach"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let script =
        "echo up; while read line; do echo \"out $line\"; echo \"err $line\" >&2; done; echo end; exit 4";
    let mut once = shell("once", script, &config);
    (once.stdin, once.stdin_once) = (true, true);
    let once = create(&client, &sandbox, &once, &config).await.unwrap();
    start(&client, &once).await.unwrap();
    until("it is up", async || (logged(&house, "attach", "once") == "up\n").then_some(())).await;
    let mut session = attach(&house, &client, &once, false).await;
    session.send(STDIN, b"one\n").await;
    session.wait_for(STDERR, "err one\n").await;
    session.close_input().await;
    let rest = session.rest().await;
    let text = String::from_utf8_lossy(&rest.stdout);
    assert!(text.ends_with("end\n") && rest.code() == 0, "{rest:?}");
    assert_eq!(ended(&client, &once).await.exit_code, 4);
    assert_eq!(logged(&house, "attach", "once"), "up\nout one\nerr one\nend\n");
    let late = cri::AttachRequest { container_id: once.clone(), stdout: true, ..Default::default() };
    assert_eq!(client.runtime().attach(late).await.unwrap_err().code(), Code::FailedPrecondition);

    let mut open = shell("open", script, &config);
    (open.stdin, open.tty) = (true, true);
    let open = create(&client, &sandbox, &open, &config).await.unwrap();
    start(&client, &open).await.unwrap();
    for word in ["one", "two"] {
        let mut session = attach(&house, &client, &open, true).await;
        session.resize(81, 24).await;
        session.send(STDIN, format!("{word}\n").as_bytes()).await;
        session.wait_for(STDOUT, &format!("err {word}")).await;
        session.close_input().await;
    }
    let size = exec(&client, &open, "stty -F /dev/pts/0 size").await.unwrap();
    assert_eq!(String::from_utf8_lossy(&size.stdout), "24 81\n");
    let mut session = attach(&house, &client, &open, true).await;
    session.send(STDIN, b"\x04").await;
    let rest = session.rest().await;
    assert!(String::from_utf8_lossy(&rest.stdout).contains("end"), "{rest:?}");
    assert_eq!(ended(&client, &open).await.exit_code, 4);
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_those_of_the_pod() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "ports"), FIRST);
    let script = "while :; do echo inside | nc -l -p 8080; done";
    let (sandbox, container) = run_shell(&client, &config, script).await.unwrap();
    let listens = async || exec(&client, &container, "netstat -ltn | grep ':8080 '").await.unwrap();
    until("it serves", async || (listens().await.exit_code == 0).then_some(())).await;
    let url = async || {
        let request = cri::PortForwardRequest { pod_sandbox_id: sandbox.clone(), port: vec![8080, 8081] };
        client.runtime().port_forward(request).await.unwrap().into_inner().url
    };
    let mut session = Session::speaking(&house, &url().await, "v4.channel.k8s.io").await;
    session.send(2, b"x").await;
    // Two channels for each port, for bytes and for errors; the first two bytes of each name it.
    let mut channels: [Vec<u8>; 4] = Default::default();
    let has = |channel: &[u8], text: &str| String::from_utf8_lossy(channel).contains(text);
    while !has(&channels[0], "inside") || !has(&channels[3], "refused") {
        let (channel, bytes) = session.next().await.unwrap();
        channels[usize::from(channel)].extend(bytes);
    }
    let named = channels.each_ref().map(|channel| u16::from_le_bytes([channel[0], channel[1]]));
    assert_eq!(named, [8080, 8080, 8081, 8081]);
    remove_pod(&client, &sandbox).await;
    let gone = cri::PortForwardRequest { pod_sandbox_id: sandbox, port: vec![8080] };
    assert_eq!(client.runtime().port_forward(gone).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_moved_away_is_begun_anew() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "log"), FIRST);
    let script = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done";
    let (sandbox, container) = run_shell(&client, &config, script).await.unwrap();
    let said = || logged(&house, "log", "main");
    until("it writes", async || (said().lines().count() > 3).then_some(())).await;
    let dir = house.logs().join("log");
    std::fs::rename(dir.join("main.log"), dir.join("main.1.log")).unwrap();
    let reopen = cri::ReopenContainerLogRequest { container_id: container.clone() };
    client.runtime().reopen_container_log(reopen.clone()).await.unwrap();
    until("it writes", async || (said().lines().count() > 3).then_some(())).await;
    support::pods::stop(&client, &container, 0).await.unwrap();
    let all = logged(&house, "log", "main.1") + &said();
    let numbers: Vec<usize> = all.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "nothing is lost or said twice");
    let late = client.runtime().reopen_container_log(reopen).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    remove_pod(&client, &sandbox).await;
}
