//! What a pod cannot be that may do anything in its own network namespace: another pod. Needs root and iproute2.

use crate::support;

use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

use kernel::Namespace;
use network::{Error, Network, Settings};
use support::*;

/// Long enough to say that nothing comes.
const DOUBT: Duration = Duration::from_millis(500);
/// Long enough for what works, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three pods of one bridge: one that lies, one that it pretends to be, and one that is lied to.
struct Street {
    lab: Lab,
    liar: Ward,
    victim: Ward,
    third: Ward,
    liars: Vec<IpAddr>,
    victims: Vec<IpAddr>,
    thirds: Vec<IpAddr>,
    network: Network,
}

impl Street {
    fn new() -> Self {
        let lab = Lab::new();
        let network = lab.open(bridge_with("10.9.0.0/24,fd00:9::/64"));
        let [liar, victim, third] = ["liar", "victim", "third"].map(Ward::new);
        let [liars, victims, thirds] =
            [&liar, &victim, &third].map(|ward| lab.try_set_up(&network, ward).unwrap().ips);
        Self { lab, liar, victim, third, liars, victims, thirds, network }
    }

    /// Whether a datagram that the liar sends in this name reaches the third before long.
    fn arrives(&self, name: IpAddr, to: IpAddr, patience: Duration) -> bool {
        let server = listen_udp(&self.third.ns, if to.is_ipv4() { "0.0.0.0:53" } else { "[::]:53" });
        server.set_read_timeout(Some(patience)).unwrap();
        at(&self.liar.ns, || UdpSocket::bind((name, 0))?.send_to(b"word", (to, 53))).unwrap();
        again(|| server.recv(&mut [0; 8])).is_ok()
    }

    fn sends(&self, name: IpAddr, to: IpAddr) {
        assert!(self.arrives(name, to, PATIENCE), "{name} to {to}");
    }

    fn is_kept_from_sending(&self, name: IpAddr, to: IpAddr) {
        assert!(!self.arrives(name, to, DOUBT), "{name} to {to}");
    }

    /// Whether the third, who knows nobody yet, finds somebody there.
    fn somebody_is_at(&self, address: IpAddr, port: u16) -> bool {
        at(&self.third.ns, || {
            ip("neigh flush dev eth0");
            ip("-6 neigh flush dev eth0");
            TcpStream::connect_timeout(&(address, port).into(), Duration::from_secs(3)).is_ok()
        })
    }
}

fn take_address(ns: &Namespace, address: IpAddr) {
    let (length, nodad) = if address.is_ipv4() { (32, "") } else { (128, "nodad") };
    at(ns, || ip(&format!("addr add {address}/{length} dev eth0 {nodad}")));
}

fn hardware(ns: &Namespace) -> String {
    let line = at(ns, || ip("-o link show eth0"));
    line.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn nothing_is_sent_in_another_pods_name() {
    let street = Street::new();
    for number in [0, 1] {
        let (own, others, to) = (street.liars[number], street.victims[number], street.thirds[number]);
        street.sends(own, to);
        take_address(&street.liar.ns, others);
        street.is_kept_from_sending(others, to);
        street.sends(own, to);
    }
    // An address that is nobody's is as little its own.
    take_address(&street.liar.ns, "10.9.0.200".parse().unwrap());
    street.is_kept_from_sending("10.9.0.200".parse().unwrap(), street.thirds[0]);
}

/// Only one of two that answer is believed, and whoever is quicker wins: so the other one is silent here.
#[test]
fn nobody_answers_for_another_pods_address() {
    let street = Street::new();
    for (number, anywhere, port) in [(0, "0.0.0.0:80", 80), (1, "[::]:81", 81)] {
        let others = street.victims[number];
        let _honest = listen(&street.victim.ns, anywhere);
        assert!(street.somebody_is_at(others, port), "the pod itself answers");
        take_address(&street.liar.ns, others);
        let _trap = listen(&street.liar.ns, anywhere);
        at(&street.victim.ns, || ip("link set eth0 down"));
        assert!(!street.somebody_is_at(others, port), "{others}");
        assert!(street.somebody_is_at(street.liars[number], port), "for its own it still answers");
        at(&street.victim.ns, || {
            ip("link set eth0 up");
            // What the kernel took away with the device.
            ip(&format!("-6 addr add {}/64 dev eth0 nodad", street.victims[1]));
        });
    }
}

#[test]
fn nothing_is_sent_with_another_pods_hardware_address() {
    let street = Street::new();
    let (own, others) = (hardware(&street.liar.ns), hardware(&street.victim.ns));
    at(&street.liar.ns, || ip(&format!("link set eth0 address {others}")));
    street.is_kept_from_sending(street.liars[0], street.thirds[0]);
    at(&street.liar.ns, || ip(&format!("link set eth0 address {own}")));
    street.sends(street.liars[0], street.thirds[0]);
}

#[test]
fn a_pod_that_is_gone_leaves_its_address_to_the_next_one() {
    let street = Street::new();
    street.lab.tear_down(&street.network, &street.victim);
    let next = Ward::new("next");
    // Addresses are reused when all others were used; whoever has one now sends in its name.
    let address = street.lab.set_up(&street.network, &next);
    let server = listen_udp(&street.third.ns, "0.0.0.0:53");
    assert_eq!(talk_udp(&next.ns, &server, &format!("{}:53", street.thirds[0])), address);
}

/// The rules see what goes through every bridge of the host.
#[test]
fn other_bridges_are_left_alone() {
    let street = Street::new();
    let [one, two] = ["one", "two"].map(|_| namespace(None));
    street.lab.at_host(|| {
        ip("link add other0 type bridge");
        ip("link set other0 up");
        for (number, ns) in [&one, &two].into_iter().enumerate() {
            ip(&format!("link add o{number} type veth peer name eth0 netns {}", path(ns).display()));
            ip(&format!("link set o{number} master other0 up"));
        }
    });
    for (ns, number) in [(&one, 1), (&two, 2)] {
        at(ns, || {
            ip(&format!("addr add 10.77.0.{number}/24 dev eth0"));
            ip("link set eth0 up");
        });
    }
    let server = listen_udp(&two, "0.0.0.0:53");
    assert_eq!(talk_udp(&one, &server, "10.77.0.2:53").to_string(), "10.77.0.1");
}

#[test]
fn a_bridge_has_one_network_and_another_one_is_refused() {
    let street = Street::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let settings = Settings { state: elsewhere.path().to_owned(), kind: bridge_with("10.10.0.0/24") };
    let refused = street.lab.at_host(|| street.lab.runtime.block_on(Network::open(settings))).unwrap_err();
    assert!(matches!(&refused, Error::OthersBridge { name, .. } if name == "wardlet0"), "{refused}");
    assert!(refused.to_string().contains(street.lab.dir.path().to_str().unwrap()), "{refused}");
    street.sends(street.liars[0], street.thirds[0]);
    let addresses = street.lab.at_host(|| ip("-o -4 addr show wardlet0"));
    assert!(addresses.contains("10.9.0.1/24") && !addresses.contains("10.10."), "{addresses}");
}

/// Somebody who makes a thousand devices makes nobody read a thousand each time that they are counted.
#[test]
fn of_a_pods_devices_no_more_are_counted_than_any_pod_needs() {
    let street = Street::new();
    at(&street.liar.ns, || {
        for number in 0..100 {
            ip(&format!("link add d{number} type bridge"));
        }
    });
    let counted = street.lab.runtime.block_on(street.network.counters(&street.liar.pod.netns)).unwrap();
    assert_eq!(counted.len(), 64);
    assert!(counted.iter().any(|interface| interface.name == "eth0"));
}
