//! Load on port 10250: clients that follow logs and run commands, clients that do not read, that stop in the middle of a handshake,
//! and that send too much. 20 of them for five seconds; with `WARDLET_ROUNDS` 200 for a minute.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testbed::Part;
use testkit::{rounds, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::pods::bound_pod;
use crate::cluster::{Cluster, Runtime, read_proc, uid};
use crate::port_client::{ADDRESS, Port, Stream};

/// Mebibytes that the pod has written before it writes a line now and then.
const WRITTEN: usize = 20;
/// Kibibytes that the agent may take for each client, and for all of them together.
const EACH: usize = 1 << 10;
const TOGETHER: usize = 48 << 10;

const LOG: &str = "/containerLogs/default/talks/app?follow=true";
const COMMAND: &str = "/exec/default/talks/app?command=cat&input=1&output=1";

fn talks() -> String {
    format!(
        "yes 0123456789abcdef0123456789abcdef0123456789abcdef | head -c {}; trap 'exit 0' TERM; \
         while :; do echo a line; sleep 0.05; done",
        WRITTEN << 20
    )
}

/// What the agent and the pod take.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Kibibytes of the agent in memory.
    resident: usize,
    /// Descriptors that it has open.
    descriptors: usize,
    /// Processes of the pod.
    processes: usize,
}

fn taken(agent: u32, pod: &str) -> Taken {
    let status = read_proc(agent, "status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let marked = format!("POD_UID={pod}");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Taken {
        resident: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        descriptors: std::fs::read_dir(Path::new("/proc").join(agent.to_string()).join("fd"))
            .unwrap()
            .count(),
        processes: processes
            .filter(|pid| read_proc(*pid, "environ").split('\0').any(|one| one == marked))
            .count(),
    }
}

/// Until the load ends.
async fn end(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Reads a log as it is written: how many bytes came.
async fn follow(port: Port, mut stop: watch::Receiver<bool>) -> usize {
    let (status, mut stream) = port.ask(&format!("GET {LOG}&tailLines=10"), "").await.unwrap();
    assert_eq!(status, 200);
    let (mut read, mut piece) = (0, vec![0; 64 << 10]);
    loop {
        tokio::select! {
            got = stream.read(&mut piece) => match got.unwrap() {
                0 => panic!("the log has ended"),
                got => read += got,
            },
            () = end(&mut stop) => return read,
        }
    }
}

/// Has a command repeat what it sends: how many times it did. Half of the clients leave without a word.
async fn command(port: Port, number: usize, stop: watch::Receiver<bool>) -> usize {
    let mut socket = port.command(COMMAND).await;
    let (sent, mut times) = (vec![b'x'; 3000], 0);
    while !*stop.borrow() {
        socket.send(0, &sent).await.unwrap();
        let mut back = 0;
        while back < sent.len() {
            let (channel, text) = socket.next().await.expect("the command goes on");
            assert!(channel == 1 && text.iter().all(|byte| *byte == b'x'), "{channel} {text:?}");
            back += text.len();
        }
        times += 1;
        sleep(Duration::from_millis(20)).await;
    }
    if number.is_multiple_of(2) {
        socket.send(255, &[0]).await.unwrap();
        let (channel, verdict) = socket.next().await.expect("the command ends");
        assert_eq!((channel, verdict.ends_with(b"\"Success\"}")), (3, true));
    }
    times
}

/// Asks for a long log and takes nothing of it.
async fn read_nothing(port: Port, mut stop: watch::Receiver<bool>) {
    let _kept: (u16, Stream) = port.ask(&format!("GET {LOG}"), "").await.unwrap();
    end(&mut stop).await;
}

/// Begins a handshake and says no more, again and again.
async fn half_open(mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let mut stream = TcpStream::connect(ADDRESS).await.unwrap();
        stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
        tokio::select! {
            _ = stream.read_u8() => {}
            () = end(&mut stop) => {}
        }
    }
}

/// Sends headers and bodies that are too large.
async fn too_much(port: Port, stop: watch::Receiver<bool>) {
    let padding = format!("X-Padding: {}\r\n", "x".repeat(200_000));
    while !*stop.borrow() {
        if let Some((status, _)) = port.ask("GET /healthz", &padding).await {
            assert_eq!(status, 431);
        }
        let (status, _) =
            port.ask("POST /run/default/talks/app?cmd=id", "Content-Length: 1000000000\r\n").await.unwrap();
        assert_eq!(status, 413);
        sleep(Duration::from_millis(100)).await;
    }
}

/// A client that wants little has it soon, whatever others do.
async fn ordinary(port: Port, stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let asked = timeout(Duration::from_secs(30), port.ask("GET /healthz", "")).await;
        assert_eq!(asked.expect("an answer in time").unwrap().0, 200);
        sleep(Duration::from_millis(500)).await;
    }
}

/// So many clients of each kind for this time; the most that was taken meanwhile.
async fn load(port: &Port, clients: usize, time: Duration, measure: impl Fn() -> Taken) -> Taken {
    let (stopping, stop) = watch::channel(false);
    let (mut readers, mut others) = (JoinSet::new(), JoinSet::new());
    for number in 0..clients / 2 {
        readers.spawn(follow(port.clone(), stop.clone()));
        readers.spawn(command(port.clone(), number, stop.clone()));
    }
    for _ in 0..clients / 4 {
        others.spawn(read_nothing(port.clone(), stop.clone()));
        others.spawn(half_open(stop.clone()));
    }
    others.spawn(too_much(port.clone(), stop.clone()));
    others.spawn(ordinary(port.clone(), stop.clone()));
    let begun = Instant::now();
    let mut most = measure();
    while begun.elapsed() < time {
        sleep(Duration::from_millis(250)).await;
        let now = measure();
        most.resident = most.resident.max(now.resident);
        most.descriptors = most.descriptors.max(now.descriptors);
        most.processes = most.processes.max(now.processes);
    }
    stopping.send_replace(true);
    while let Some(ended) = others.join_next().await {
        ended.unwrap();
    }
    while let Some(done) = readers.join_next().await {
        assert!(done.unwrap() > 0, "each client was served");
    }
    most
}

#[test]
fn many_clients_of_port_10250_take_a_bounded_part_of_the_node_and_leave_nothing() {
    let (clients, time) =
        if rounds() > 1 { (200, Duration::from_mins(1)) } else { (20, Duration::from_secs(5)) };
    let mut cluster = Cluster::of(Runtime::BuiltIn, &[Part::ControllerManager, Part::Scheduler]);
    cluster.kubelet = json!({"containerLogMaxSize": "200Mi"});
    cluster.import();
    let agent = cluster.agent();
    cluster.await_node_ready();
    cluster.apply(&bound_pod("talks", &talks()));
    let pod = uid(&cluster.await_ready_pods("talks", 1)[0]).to_owned();
    wait_until("the log is long", || cluster.kubectl("logs talks --tail=1").starts_with("a line"));
    let port = Port::new(cluster.testbed.kubeconfig().parent().unwrap());
    let measure = || taken(agent.pid(), &pod);
    let loaded = |clients: usize, time: Duration| {
        let in_network = || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(load(&port, clients, time, measure))
        };
        cluster.testbed.in_network(in_network).unwrap()
    };
    // What stays after the first clients: threads, buffers of the allocator.
    loaded(8, Duration::from_secs(1));
    let settled = |before: Option<Taken>| {
        let mut now = measure();
        wait_until("what the clients had is free again", || {
            now = measure();
            let most = before.map_or(usize::MAX, |before| before.descriptors + 8);
            now.processes <= before.map_or(2, |before| before.processes) && now.descriptors <= most
        });
        now
    };
    let before = settled(None);
    let most = loaded(clients, time);
    let after = settled(Some(before));
    println!("{clients} clients: before {before:?}, most {most:?}, after {after:?}");
    // Each client of the four kinds has at most a connection, one to the runtime, a file and pipes.
    let all = clients + clients / 2;
    assert!(most.descriptors <= before.descriptors + 12 * all + 64, "{before:?} {most:?}");
    assert!(most.processes <= before.processes + clients / 2 + 4, "{before:?} {most:?}");
    assert!(most.resident <= before.resident + TOGETHER + all * EACH, "{before:?} {most:?}");
    // The same again takes no more.
    loaded(clients, time);
    let again = settled(Some(before));
    assert!(again.resident <= after.resident + TOGETHER / 2, "{after:?} {again:?}");
    cluster.kubectl("delete pod talks --timeout=60s");
    cluster.await_no_leases();
}
