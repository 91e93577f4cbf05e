//! Ports of the host that lead to pods.

use crate::support;

use std::net::IpAddr;

use network::{Error, HostPort, Protocol};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::*;

/// Whether frames between ports of a bridge are shown to the firewall: hosts differ in it.
fn show_frames(lab: &Lab, value: &str) {
    sysctl(&lab.host, "bridge/bridge-nf-call-iptables", value);
}

fn at_address(ip: &str, port: HostPort) -> HostPort {
    HostPort { host_ip: Some(ip.parse().unwrap()), ..port }
}

#[test]
fn a_host_port_leads_to_its_pod_from_everywhere() {
    for frames in ["0", "1"] {
        let lab = Lab::new();
        show_frames(&lab, frames);
        let network = lab.open(bridge());
        let web = Ward::new("web").with_port(port(Protocol::Tcp, 8080, 80));
        let other = Ward::new("other");
        lab.set_up(&network, &web);
        let other_ip = lab.set_up(&network, &other);
        let server = listen(&web.ns, "0.0.0.0:80");
        let seen = |from, target: &str| talk(from, &server, target).to_string();
        assert_eq!(seen(&lab.outside, &format!("{HOST}:8080")), OUTSIDE, "the pod sees who it is");
        assert_eq!(seen(&lab.host, &format!("{HOST}:8080")), HOST);
        assert_eq!(seen(&lab.host, "127.0.0.1:8080"), "10.244.77.1");
        assert_eq!(seen(&lab.host, "127.8.9.1:8080"), "10.244.77.1");
        assert_eq!(seen(&lab.host, "10.244.77.1:8080"), "10.244.77.1");
        for target in [format!("{HOST}:8080"), "10.244.77.1:8080".to_owned()] {
            assert_eq!(seen(&other.ns, &target), "10.244.77.1", "{target} by {other_ip}");
            assert_eq!(seen(&web.ns, &target), "10.244.77.1", "{target} by itself");
        }
        lab.tear_down(&network, &web);
        for from in [&lab.host, &lab.outside, &other.ns] {
            cannot_connect(from, &format!("{HOST}:8080"));
        }
    }
}

#[test]
fn a_host_port_of_udp_leads_to_its_pod_from_everywhere() {
    for frames in ["0", "1"] {
        let lab = Lab::new();
        show_frames(&lab, frames);
        let network = lab.open(bridge());
        let dns = Ward::new("dns").with_port(port(Protocol::Udp, 5353, 53));
        let other = Ward::new("other");
        lab.set_up(&network, &dns);
        lab.set_up(&network, &other);
        let server = listen_udp(&dns.ns, "0.0.0.0:53");
        let seen = |from, target: &str| talk_udp(from, &server, target).to_string();
        assert_eq!(seen(&lab.outside, &format!("{HOST}:5353")), OUTSIDE);
        assert_eq!(seen(&lab.host, "127.0.0.1:5353"), "10.244.77.1");
        assert_eq!(seen(&other.ns, &format!("{HOST}:5353")), "10.244.77.1");
        assert_eq!(seen(&dns.ns, &format!("{HOST}:5353")), "10.244.77.1");
    }
}

#[test]
fn a_host_port_of_one_address_is_of_no_other() {
    let lab = Lab::new();
    lab.at_host(|| ip("addr add 192.0.2.9/24 dev up0"));
    let network = lab.open(bridge());
    let tcp = port(Protocol::Tcp, 8080, 80);
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let (one, two) =
        (one.with_port(at_address("192.0.2.9", tcp)), two.with_port(at_address("127.0.0.1", tcp)));
    lab.set_up(&network, &one);
    lab.set_up(&network, &two);
    let (first, second) = (listen(&one.ns, "0.0.0.0:80"), listen(&two.ns, "0.0.0.0:80"));
    talk(&lab.outside, &first, "192.0.2.9:8080");
    talk(&lab.host, &second, "127.0.0.1:8080");
    cannot_connect(&lab.outside, &format!("{HOST}:8080"));
    // The same number of other protocols, and other numbers, are free.
    let free =
        Ward::new("free").with_port(port(Protocol::Udp, 8080, 80)).with_port(port(Protocol::Sctp, 8080, 80));
    lab.set_up(&network, &free);
}

#[test]
fn a_port_that_is_taken_is_refused_with_its_holder() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let tcp = port(Protocol::Tcp, 8080, 80);
    let holder = Ward::new("holder").with_port(tcp);
    lab.set_up(&network, &holder);
    for asked in [tcp, at_address(HOST, tcp), at_address("0.0.0.0", tcp)] {
        let late = Ward::new("late").with_port(asked);
        let error = lab.try_set_up(&network, &late).unwrap_err();
        assert!(matches!(error, Error::PortTaken { .. }), "{error}");
        assert!(
            error.to_string().contains("8080") && error.to_string().contains("default/holder"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
    assert_eq!((lab.leases(&network).len(), lab.lease_files()), (1, 1));
    let server = listen(&holder.ns, "0.0.0.0:80");
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
    lab.tear_down(&network, &holder);
    let late = Ward::new("late").with_port(tcp);
    lab.set_up(&network, &late);
    let server = listen(&late.ns, "0.0.0.0:80");
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
}

#[test]
fn a_port_of_an_ipv6_address_is_refused() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    for ip in ["::1", "::"] {
        let ward = Ward::new("one").with_port(at_address(ip, port(Protocol::Tcp, 8080, 80)));
        let error = lab.try_set_up(&network, &ward).unwrap_err();
        assert!(matches!(error, Error::PortAddress { .. }) && error.hint().is_some(), "{error}");
    }
    assert_eq!(lab.lease_files(), 0);
}

/// The kernel remembers where a client was led that goes on asking from the same port: to a pod that is gone,
/// or nowhere while there was none.
#[test]
fn datagrams_find_the_pod_that_has_the_port_now() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let client = listen_udp(&lab.outside, &format!("{OUTSIDE}:9999"));
    client.connect(format!("{HOST}:5353")).unwrap();
    let mut heard = [0; 16];
    client.send(b"question").unwrap();
    again(|| client.recv(&mut heard)).map(|_| panic!("nobody is there")).unwrap_err();
    for name in ["first", "second"] {
        let ward = Ward::new(name).with_port(port(Protocol::Udp, 5353, 53));
        lab.set_up(&network, &ward);
        let server = listen_udp(&ward.ns, "0.0.0.0:53");
        client.send(b"question").unwrap();
        let (_, peer) =
            again(|| server.recv_from(&mut heard)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(peer.ip(), OUTSIDE.parse::<IpAddr>().unwrap());
        server.send_to(b"answer", peer).unwrap();
        assert_eq!(again(|| client.recv(&mut heard)).unwrap(), 6, "{name}");
        lab.tear_down(&network, &ward);
    }
}

#[test]
fn ports_lead_to_their_pods_after_a_restart_and_after_the_rules_are_lost() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let web = Ward::new("web").with_port(port(Protocol::Tcp, 8080, 80));
    lab.set_up(&network, &web);
    drop(network);
    let network = lab.open(bridge());
    let server = listen(&web.ns, "0.0.0.0:80");
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
    // The bridge is removed by somebody, and the pods' devices with it.
    lab.at_host(|| ip("link del wardlet0"));
    cannot_connect(&lab.outside, &format!("{HOST}:8080"));
    lab.runtime.block_on(network.ready()).unwrap();
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
    lose_rules(&lab.host);
    cannot_connect(&lab.outside, &format!("{HOST}:8080"));
    lab.runtime.block_on(network.ready()).unwrap();
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
    lose_rules(&lab.host);
    let more = Ward::new("more").with_port(port(Protocol::Tcp, 8081, 80));
    lab.set_up(&network, &more);
    talk(&lab.outside, &server, &format!("{HOST}:8080"));
    let taken = Ward::new("late").with_port(port(Protocol::Tcp, 8080, 80));
    assert!(matches!(lab.try_set_up(&network, &taken), Err(Error::PortTaken { .. })));
}

#[test]
fn hundreds_of_ports_are_one_change() {
    // Each port is held by a socket of the server, which may have half of its descriptors for them.
    let _alone = NOFILE_LIMIT.lock();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let lab = Lab::new();
    let network = lab.open(bridge());
    let mut ward = Ward::new("many");
    ward.pod.host_ports = (0..3000).map(|n| port(Protocol::Tcp, 10_000 + n, 80)).collect();
    lab.set_up(&network, &ward);
    let server = listen(&ward.ns, "0.0.0.0:80");
    for number in [10_000, 11_500, 12_999] {
        talk(&lab.outside, &server, &format!("{HOST}:{number}"));
    }
    cannot_connect(&lab.outside, &format!("{HOST}:13000"));
}
