//! The network of pods, as the pods and the host see it.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;

use cri::NamespaceMode;
use cri::client::Client;
use support::pods::{exec, in_users, logged, options, pod, remove_pod, run_pod, run_shell, sandbox_status};
use support::traces::Traces;
use support::{House, Options, until};

const FIRST: u32 = 1_310_720_000;
const SERVE: &str = "while :; do hostname | nc -l -p 80; done";

fn bridge() -> Options {
    Options { network: "bridge".into(), ..Options::default() }
}

async fn says(client: &Client, container: &str, script: &str) -> String {
    let answer = exec(client, container, script).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{script}: {}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap()
}

/// What somebody says at this address to whoever comes from the host; nothing if nobody does.
fn got_on_host(house: &House, at: &str) -> String {
    let (ip, port) = at.split_once(':').unwrap();
    let got =
        house.inside(Path::new("busybox")).args(["nc", "-w", "5", ip, port]).stdin(Stdio::null()).output();
    String::from_utf8(got.unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_reach_each_other_and_the_host_reaches_them() {
    let house = House::open(bridge()).await;
    let client = house.client().await;
    // The bridge comes with the first pod, and stays.
    let first = run_pod(&client, &pod(&house, "first")).await.unwrap();
    remove_pod(&client, &first).await;
    let before = Traces::of(&house);
    let mut web = in_users(pod(&house, "web"), FIRST);
    web.dns_config = Some(cri::DnsConfig {
        servers: vec!["10.96.0.10".into()],
        searches: vec!["tests.svc".into(), "svc".into()],
        options: vec!["ndots:5".into()],
    });
    web.port_mappings = vec![cri::PortMapping { container_port: 80, host_port: 18080, ..Default::default() }];
    let other = pod(&house, "other");
    let (web_pod, web) = run_shell(&client, &web, SERVE).await.unwrap();
    let (other_pod, other) = run_shell(&client, &other, SERVE).await.unwrap();
    let mut ips = vec![];
    for (sandbox, container, name) in [(&web_pod, &web, "web"), (&other_pod, &other, "other")] {
        let ip = sandbox_status(&client, sandbox).await.unwrap().network.unwrap().ip;
        assert!(ip.parse::<Ipv4Addr>().is_ok(), "{ip}");
        let own = says(&client, container, "ip -4 addr show dev eth0; cat /etc/hosts").await;
        assert!(own.contains(&format!("inet {ip}/")) && own.contains(&format!("\n{ip}\t{name}\n")), "{own}");
        assert!(own.contains("127.0.0.1\tlocalhost\n"), "{own}");
        let names = says(&client, container, "hostname; cat /etc/hostname; echo $HOSTNAME").await;
        assert_eq!(names, format!("{name}\n").repeat(3));
        let owners = says(&client, container, "cd /etc && stat -c %u:%g:%a hosts hostname resolv.conf").await;
        assert_eq!(owners, "0:0:644\n".repeat(3), "in a user namespace or not, they are the pod's root's");
        ips.push(ip);
    }
    let resolver = says(&client, &web, "cat /etc/resolv.conf").await;
    assert_eq!(resolver, "search tests.svc svc\nnameserver 10.96.0.10\noptions ndots:5\n");
    let hosts_own = std::fs::read_to_string("/etc/resolv.conf").unwrap();
    assert_eq!(says(&client, &other, "cat /etc/resolv.conf").await, hosts_own);
    for (from, to, name) in [(&other, &ips[0], "web"), (&web, &ips[1], "other")] {
        let get = format!("nc -w 5 {to} 80 < /dev/null || true");
        let page = format!("{name}\n");
        until("it answers", async || (says(&client, from, &get).await == page).then_some(())).await;
    }
    // Whoever has just answered listens again soon.
    for (at, name) in [(format!("{}:80", ips[1]), "other\n"), ("127.0.0.1:18080".to_owned(), "web\n")] {
        until("it answers the host", async || (got_on_host(&house, &at) == name).then_some(())).await;
    }
    for sandbox in [&web_pod, &other_pod] {
        remove_pod(&client, sandbox).await;
    }
    assert_eq!(got_on_host(&house, "127.0.0.1:18080"), "");
    assert_eq!(Traces::of(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_in_the_hosts_network_has_the_hosts_name_and_devices() {
    let house = House::open(bridge()).await;
    let client = house.client().await;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let link = format!("/proc/{}/ns/net", house.holder());
    let network = std::fs::read_link(link).unwrap().display().to_string();
    for (name, users) in [("plain", false), ("mapped", true)] {
        let mut config = pod(&house, name);
        if users {
            config = in_users(config, FIRST);
        }
        options(&mut config).network = NamespaceMode::Node.into();
        let (sandbox, container) = run_shell(&client, &config, "hostname; sleep 1000").await.unwrap();
        assert_eq!(sandbox_status(&client, &sandbox).await.unwrap().network.unwrap().ip, "");
        until("it is up", async || (logged(&house, name, "main") == host).then_some(())).await;
        let seen = says(&client, &container, "readlink /proc/self/ns/net; hostname; cat /etc/hostname").await;
        assert_eq!(seen, format!("{network}\n{host}{host}"), "{name}");
        let table = std::fs::read_to_string("/etc/hosts").unwrap();
        assert_eq!(says(&client, &container, "cat /etc/hosts").await, table);
        // All of /sys, whatever is mounted below it; of two mounts at one place the last is seen. An engine may
        // keep its own directory for the hierarchies writable, which is nobody else's.
        let sys = says(&client, &container, "grep ' /sys' /proc/self/mounts | grep -v '^tmpfs '").await;
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let seen: BTreeMap<String, String> =
            sys.lines().map(words).map(|words| (words[1].clone(), words[3].clone())).collect();
        let read_only = |options: &String| options.split(',').any(|option| option == "ro");
        assert!(seen.values().all(read_only), "{name}: {seen:?}");
        let write = "echo 1 > /sys/class/net/lo/mtu; ls /sys/class/net; head -c 1 /proc/self/uid_map";
        let answer = exec(&client, &container, write).await.unwrap();
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(said.contains("Read-only") || said.contains("denied"), "{name}: {said}");
        assert!(String::from_utf8_lossy(&answer.stdout).contains("lo"), "{name}");
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_a_pod_has_its_loopback() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "alone"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, SERVE).await.unwrap();
    assert_eq!(sandbox_status(&client, &sandbox).await.unwrap().network.unwrap().ip, "");
    let get = "nc -w 5 127.0.0.1 80 < /dev/null || true";
    until("it answers", async || (says(&client, &container, get).await == "alone\n").then_some(())).await;
    let seen = says(&client, &container, "ls /sys/class/net; ip route; cat /etc/hosts").await;
    assert_eq!(seen, "lo\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    assert_eq!(got_on_host(&house, "127.0.0.1:80"), "", "it is nobody else's");
    remove_pod(&client, &sandbox).await;
}
