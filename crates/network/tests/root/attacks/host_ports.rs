//! A pod asks for a host port on which a process of the host listens: 22, 6443, 10250. The firewall redirects packets
//! before the host's sockets see them, so that the pod got the connections that were meant for sshd, the API server or
//! the kubelet, with the passwords and tokens in them, and the host's process noticed nothing.

use std::net::TcpListener;
use std::time::Duration;

use network::{Error, HostPort, Network, Protocol};

use crate::support::*;

const PORT: u16 = 6443;

fn wanted(protocol: Protocol, host_ip: Option<&str>) -> HostPort {
    HostPort { host_ip: host_ip.map(|ip| ip.parse().unwrap()), ..port(protocol, PORT, 80) }
}

/// The pod is refused, the holder is this process, and nothing is left of the pod.
fn is_refused(lab: &Lab, network: &Network, asked: HostPort) {
    let pod = Ward::new("thief").with_port(asked);
    let error = lab.try_set_up(network, &pod).map(|_| panic!("{asked}: the pod got it")).unwrap_err();
    let Error::PortInUse { port, holder: Some(holder) } = &error else { panic!("{asked}: {error}") };
    assert_eq!((*port, holder.address.port()), (asked, PORT), "{error}");
    assert_eq!(holder.process.as_ref().unwrap().pid, std::process::id(), "{error}");
    assert!(error.hint().is_some());
    assert_eq!((lab.leases(network).len(), lab.lease_files()), (0, 0), "{asked}");
}

/// What listens on the host, from where it is asked, and what a pod asks for.
struct Case {
    listens: &'static str,
    asked_at: &'static str,
    outside: bool,
    taken: &'static [Option<&'static str>],
}

const CASES: &[Case] = &[
    Case {
        listens: "0.0.0.0",
        asked_at: HOST,
        outside: true,
        taken: &[None, Some("0.0.0.0"), Some(HOST), Some("127.0.0.1")],
    },
    // Dual-stack, as programs in Go listen by default.
    Case {
        listens: "[::]",
        asked_at: HOST,
        outside: true,
        taken: &[None, Some("0.0.0.0"), Some(HOST), Some("127.0.0.1")],
    },
    Case { listens: HOST, asked_at: HOST, outside: true, taken: &[None, Some(HOST)] },
    Case { listens: "127.0.0.1", asked_at: "127.0.0.1", outside: false, taken: &[None, Some("127.0.0.1")] },
    Case { listens: "[::ffff:192.0.2.1]", asked_at: HOST, outside: true, taken: &[None, Some(HOST)] },
];

#[test]
fn a_pod_cannot_take_over_a_tcp_port_on_which_the_host_listens() {
    for case in CASES {
        let lab = Lab::new();
        let network = lab.open(bridge());
        let server = listen(&lab.host, &format!("{}:{PORT}", case.listens));
        for ip in case.taken {
            is_refused(&lab, &network, wanted(Protocol::Tcp, *ip));
            let from = if case.outside { &lab.outside } else { &lab.host };
            talk(from, &server, &format!("{}:{PORT}", case.asked_at));
        }
        // The same number of another protocol is free.
        lab.set_up(&network, &Ward::new("other").with_port(wanted(Protocol::Udp, None)));
    }
}

#[test]
fn a_pod_cannot_take_over_a_udp_port_that_the_host_has() {
    for (bound, asked_at) in [("0.0.0.0", HOST), ("[::]", HOST), (HOST, HOST), ("127.0.0.1", "127.0.0.1")] {
        let lab = Lab::new();
        let network = lab.open(bridge());
        let server = listen_udp(&lab.host, &format!("{bound}:{PORT}"));
        is_refused(&lab, &network, wanted(Protocol::Udp, None));
        is_refused(&lab, &network, wanted(Protocol::Udp, Some(asked_at)));
        talk_udp(&lab.host, &server, &format!("{asked_at}:{PORT}"));
    }
}

/// An address at which the host does not listen is free, as is the port once the host's process has ended, although
/// connections of that process are not forgotten by the kernel for a minute.
#[test]
fn a_port_that_is_free_at_the_wanted_address_leads_to_the_pod() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let local = listen(&lab.host, &format!("127.0.0.1:{PORT}"));
    let pod = Ward::new("web").with_port(wanted(Protocol::Tcp, Some(HOST)));
    lab.set_up(&network, &pod);
    let server = listen(&pod.ns, "0.0.0.0:80");
    talk(&lab.outside, &server, &format!("{HOST}:{PORT}"));
    talk(&lab.host, &local, &format!("127.0.0.1:{PORT}"));
    lab.tear_down(&network, &pod);
    // The server is the first to close: TIME_WAIT is on its side.
    let server = listen(&lab.host, &format!("{HOST}:{PORT}"));
    close_first(&lab, &server);
    drop((server, local));
    let pod = Ward::new("next").with_port(wanted(Protocol::Tcp, None));
    lab.set_up(&network, &pod);
    let server = listen(&pod.ns, "0.0.0.0:80");
    for (from, ip) in [(&lab.outside, HOST), (&lab.host, "127.0.0.1")] {
        talk(from, &server, &format!("{ip}:{PORT}"));
    }
}

fn close_first(lab: &Lab, server: &TcpListener) {
    use std::io::Read;
    let client = at(&lab.outside, || std::net::TcpStream::connect(format!("{HOST}:{PORT}")));
    let (accepted, _) = server.accept().unwrap();
    drop(accepted);
    let mut client = client.unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop(client);
    let sockets = lab.at_host(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let waits = |line: &str| line.contains(&format!(":{PORT:04X} ")) && line.contains(" 06 ");
    assert!(sockets.lines().any(waits), "no connection is in TIME_WAIT: {sockets}");
}

/// A process of the host that begins to listen later learns that the port is taken, instead of listening in vain:
/// also after a restart of the server, and until the pod ends.
#[test]
fn while_a_pod_has_a_port_the_host_cannot_listen_on_it() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let pod = Ward::new("web")
        .with_port(wanted(Protocol::Tcp, None))
        .with_port(HostPort { protocol: Protocol::Udp, ..wanted(Protocol::Tcp, None) });
    lab.set_up(&network, &pod);
    let busy = || {
        for ip in ["0.0.0.0", "[::]", HOST, "127.0.0.1"] {
            let address = format!("{ip}:{PORT}");
            lab.at_host(|| {
                // With SO_REUSEADDR, as every server has it.
                let listening = TcpListener::bind(&address).map(drop).unwrap_err();
                assert_eq!(listening.kind(), std::io::ErrorKind::AddrInUse, "{address}");
                let bound = std::net::UdpSocket::bind(&address).map(drop).unwrap_err();
                assert_eq!(bound.kind(), std::io::ErrorKind::AddrInUse, "{address}");
            });
        }
    };
    busy();
    drop(network);
    let network = lab.open(bridge());
    busy();
    // Without rules there is no pod behind the port, and no server of ours either.
    lose_rules(&lab.host);
    cannot_connect(&lab.outside, &format!("{HOST}:{PORT}"));
    lab.tear_down(&network, &pod);
    drop(listen(&lab.host, &format!("0.0.0.0:{PORT}")));
    drop(listen_udp(&lab.host, &format!("0.0.0.0:{PORT}")));
}

/// A process that has bound the port while no server was there does not get it; it is named in the log.
#[test]
fn a_listener_that_came_while_no_server_ran_is_named() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let pod = Ward::new("web").with_port(wanted(Protocol::Tcp, None));
    lab.set_up(&network, &pod);
    drop(network);
    let listener = listen(&lab.host, &format!("127.0.0.1:{PORT}"));
    let network = lab.open(bridge());
    let notices = network.notices();
    let named =
        |notice: &String| notice.contains("default/web") && notice.contains(&std::process::id().to_string());
    assert!(notices.iter().any(named), "{notices:?}");
    let server = listen(&pod.ns, "0.0.0.0:80");
    talk(&lab.outside, &server, &format!("{HOST}:{PORT}"));
    drop(listener);
}

/// One port that is taken after a restart left all ports of the pod to processes of the host: a user bound one of a
/// pod's ports while no server ran, and then any process could bind the others and listen in vain.
#[test]
fn one_taken_port_leaves_no_other_port_of_the_pod_unheld() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let numbers = [PORT - 1, PORT, PORT + 1];
    let mut pod = Ward::new("web");
    pod.pod.host_ports = numbers.map(|number| port(Protocol::Tcp, number, 80)).to_vec();
    lab.set_up(&network, &pod);
    drop(network);
    let listener = listen(&lab.host, &format!("127.0.0.1:{PORT}"));
    let network = lab.open(bridge());
    let notices = network.notices();
    let told = |number: u16| notices.iter().filter(|notice| notice.contains(&number.to_string())).count();
    assert_eq!(numbers.map(told), [0, 1, 0], "{notices:?}");
    for number in [PORT - 1, PORT + 1] {
        let bound = lab.at_host(|| TcpListener::bind(("0.0.0.0", number)).map(drop));
        assert_eq!(bound.map_err(|error| error.kind()), Err(std::io::ErrorKind::AddrInUse), "{number}");
    }
    drop((network, listener));
}

/// A pod with thousands of host ports does not take all descriptors of the server.
#[test]
fn a_pod_cannot_use_up_the_servers_descriptors_with_host_ports() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let lab = Lab::new();
    let network = lab.open(bridge());
    let mut pod = Ward::new("many");
    pod.pod.host_ports = (1000..3000).map(|number| port(Protocol::Udp, number, 80)).collect();
    let alone = NOFILE_LIMIT.lock();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..before }).unwrap();
    let refused = lab.try_set_up(&network, &pod);
    setrlimit(Resource::Nofile, before).unwrap();
    drop(alone);
    assert!(matches!(refused, Err(Error::TooManyPorts { most: 512, .. })), "{refused:?}");
    assert_eq!(lab.lease_files(), 0);
    drop(listen_udp(&lab.host, "0.0.0.0:1000"));
}
