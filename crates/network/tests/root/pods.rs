//! Pods on the bridge: they reach each other, the outside, and nothing they should not.

use crate::support;

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use kernel::Namespace;
use network::{Error, Kind};
use support::*;

#[test]
fn pods_of_different_users_reach_each_other() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let (a, b) = (lab.set_up(&network, &one), lab.set_up(&network, &two));
    assert_eq!([a, b].map(|ip| ip.to_string()), ["10.244.77.2", "10.244.77.3"]);
    let owners = [&one, &two].map(|ward| ward.ns.owner().unwrap().unwrap().id());
    assert_ne!(owners[0], owners[1], "one user namespace for both proves nothing");
    let server = listen(&two.ns, "0.0.0.0:80");
    assert_eq!(talk(&one.ns, &server, &format!("{b}:80")), a, "in the pod's own name");
    let server = listen_udp(&two.ns, "0.0.0.0:53");
    assert_eq!(talk_udp(&one.ns, &server, &format!("{b}:53")), a);
    let server = listen(&one.ns, "127.0.0.1:80");
    talk(&one.ns, &server, "127.0.0.1:80");
    let server = listen(&two.ns, "0.0.0.0:81");
    assert_eq!(talk(&lab.host, &server, &format!("{b}:81")).to_string(), "10.244.77.1", "from the host");
}

#[test]
fn the_outside_sees_the_host_and_not_the_pod() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    let server = listen(&lab.outside, "0.0.0.0:80");
    assert_eq!(talk(&ward.ns, &server, &format!("{OUTSIDE}:80")).to_string(), HOST);
    let server = listen_udp(&lab.outside, "0.0.0.0:53");
    assert_eq!(talk_udp(&ward.ns, &server, &format!("{OUTSIDE}:53")).to_string(), HOST);
    let notices = network.notices();
    assert!(notices.iter().any(|words| words.contains("ip_forward")), "{notices:?}");
    assert!(network.notices().is_empty(), "each is told once");
}

#[test]
fn with_a_second_subnet_pods_have_ipv6_too() {
    let lab = Lab::new();
    let network = lab.open(bridge_with("10.9.0.0/24,fd00:9::/64"));
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let a = lab.try_set_up(&network, &one).unwrap().ips;
    let b = lab.try_set_up(&network, &two).unwrap().ips;
    let words = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(words(&a), ["10.9.0.2", "fd00:9::2"]);
    assert_eq!(words(&b), ["10.9.0.3", "fd00:9::3"]);
    let server = listen(&two.ns, "[::]:80");
    assert_eq!(talk(&one.ns, &server, "[fd00:9::3]:80"), a[1]);
    let server = listen_udp(&two.ns, "[::]:53");
    assert_eq!(talk_udp(&one.ns, &server, "[fd00:9::3]:53"), a[1]);
    let server = listen(&lab.outside, "[::]:80");
    assert_eq!(talk(&one.ns, &server, &format!("[{OUTSIDE6}]:80")).to_string(), HOST6);
    let notices = network.notices();
    assert!(notices.iter().any(|words| words.contains("ipv6.conf.all.forwarding")), "{notices:?}");
}

#[test]
fn the_mtu_is_the_way_outs_unless_it_is_given() {
    let mtu = |ns, device: &str| {
        let file = format!("/sys/class/net/{device}/mtu");
        let line = at(ns, || ip(&format!("-o link show {device}")));
        let after = line.split(" mtu ").nth(1).unwrap_or_else(|| panic!("{file}: {line}")).to_owned();
        after.split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let lab = Lab::new();
    lab.at_host(|| {
        ip("link set up0 mtu 1400");
        ip(&format!("route add default via {OUTSIDE}"));
    });
    let (ward, other) = (Ward::new("one"), Ward::new("two"));
    let network = lab.open(bridge());
    lab.set_up(&network, &ward);
    assert_eq!((mtu(&lab.host, "wardlet0"), mtu(&ward.ns, "eth0")), (1400, 1400));
    drop(network);
    let network = lab.open(Kind::Bridge { name: "wardlet0".into(), subnets: None, mtu: Some(1300) });
    lab.set_up(&network, &other);
    assert_eq!((mtu(&lab.host, "wardlet0"), mtu(&other.ns, "eth0")), (1300, 1300));
}

#[test]
fn fifty_pods_at_once_have_fifty_addresses_and_leave_nothing() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let before = lab.devices();
    let wards: Vec<_> = (0..50).map(|n| Ward::new(&format!("pod-{n}"))).collect();
    let begun = Instant::now();
    let addresses: BTreeSet<IpAddr> = lab.runtime.block_on(async {
        let tasks: Vec<_> = wards
            .iter()
            .map(|ward| {
                let (network, pod) = (network.clone(), ward.pod.clone());
                tokio::spawn(async move { network.set_up(&pod).await.unwrap().ips[0] })
            })
            .collect();
        let mut all = BTreeSet::new();
        for task in tasks {
            all.insert(task.await.unwrap());
        }
        all
    });
    println!("50 pods at once: {:?}", begun.elapsed());
    assert_eq!(addresses.len(), 50);
    assert_eq!(lab.devices().len(), before.len() + 50);
    for ward in &wards {
        let server = listen(&lab.host, "10.244.77.1:0");
        let target = server.local_addr().unwrap().to_string();
        assert!(addresses.contains(&talk(&ward.ns, &server, &target)));
    }
    let begun = Instant::now();
    lab.runtime.block_on(async {
        let tasks: Vec<_> = wards
            .iter()
            .map(|ward| {
                let (network, id) = (network.clone(), ward.pod.id.clone());
                tokio::spawn(async move { network.tear_down(&id, None).await.unwrap() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("50 pods gone: {:?}", begun.elapsed());
    assert_eq!(lab.devices(), before);
    assert_eq!((lab.leases(&network), lab.lease_files()), (vec![], 0));
}

#[test]
fn no_thread_of_the_process_stays_in_a_pod() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    lab.runtime.block_on(network.counters(&ward.pod.netns)).unwrap();
    let pod = at(&ward.ns, || std::fs::read_link("/proc/thread-self/ns/net").unwrap());
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // Threads of other tests come and go.
        let Ok(ns) = std::fs::read_link(task.unwrap().path().join("ns/net")) else { continue };
        assert_ne!(ns, pod);
    }
}

#[test]
fn a_pod_does_not_reach_what_only_the_host_itself_should() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    let server = listen(&lab.host, "127.0.0.1:7777");
    talk(&lab.host, &server, "127.0.0.1:7777");
    // A pod's root may do all of this.
    sysctl(&ward.ns, "ipv4/conf/all/route_localnet", "1");
    at(&ward.ns, || {
        ip("addr del 127.0.0.1/8 dev lo");
        ip("route add 127.0.0.0/8 via 10.244.77.1 dev eth0");
    });
    cannot_connect(&ward.ns, "127.0.0.1:7777");
}

#[test]
fn without_a_network_there_is_loopback() {
    let lab = Lab::new();
    let network = lab.open(Kind::None);
    let ward = Ward::new("one");
    assert!(lab.try_set_up(&network, &ward).unwrap().ips.is_empty());
    let server = listen(&ward.ns, "127.0.0.1:80");
    talk(&ward.ns, &server, "127.0.0.1:80");
    assert_eq!(devices(&ward.ns), ["lo"]);
    lab.runtime.block_on(network.ready()).unwrap();
    lab.tear_down(&network, &ward);
    assert_eq!(lab.devices(), ["lo", "up0"]);
    let bare = Ward::new("two");
    lab.runtime.block_on(network.loopback_up(&bare.pod.netns)).unwrap();
    let server = listen(&bare.ns, "127.0.0.1:80");
    talk(&bare.ns, &server, "127.0.0.1:80");
}

#[test]
fn what_goes_through_is_counted() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    let eth0 = || {
        let all = lab.runtime.block_on(network.counters(&ward.pod.netns)).unwrap();
        all.into_iter().find(|interface| interface.name == "eth0").unwrap()
    };
    let before = eth0();
    let server = listen_udp(&lab.host, "10.244.77.1:0");
    let target = server.local_addr().unwrap().to_string();
    for _ in 0..10 {
        talk_udp(&ward.ns, &server, &target);
    }
    let after = eth0();
    assert!(after.tx_packets >= before.tx_packets + 10, "{before:?} {after:?}");
    assert!(after.rx_bytes >= before.rx_bytes + 80, "{before:?} {after:?}");
    assert_eq!((after.rx_errors, after.tx_errors), (0, 0));
}

/// A pair takes no packet that is larger than what its other end is set to.
#[test]
fn packets_for_which_there_is_no_room_are_counted_apart() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    let address = lab.set_up(&network, &ward);
    let dropped = || {
        let all = lab.runtime.block_on(network.counters(&ward.pod.netns)).unwrap();
        let eth0 = all.into_iter().find(|interface| interface.name == "eth0").unwrap();
        (eth0.rx_dropped, eth0.tx_dropped)
    };
    let known = ["lo".to_owned(), "up0".to_owned(), "wardlet0".to_owned()];
    let outer = lab.devices().into_iter().find(|name| !known.contains(name)).unwrap();
    let send = |from: &Namespace, to: &str| {
        at(from, || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&[0; 1200], (to, 9))).unwrap();
    };
    at(&ward.ns, || ip("link set eth0 mtu 600"));
    let sent = (0..500).find(|_| {
        send(&lab.host, &address.to_string());
        thread::sleep(Duration::from_millis(10));
        dropped().0 > 0
    });
    assert!(sent.is_some() && dropped().1 == 0, "{:?}", dropped());
    at(&ward.ns, || ip("link set eth0 mtu 1500"));
    lab.at_host(|| ip(&format!("link set {outer} mtu 600")));
    let sent = (0..500).find(|_| {
        send(&ward.ns, "10.244.77.1");
        thread::sleep(Duration::from_millis(10));
        dropped().1 > 0
    });
    assert!(sent.is_some(), "{:?}", dropped());
}

#[test]
fn setting_up_again_disturbs_nothing() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let (ward, other) = (Ward::new("one"), Ward::new("two"));
    let address = lab.set_up(&network, &ward);
    lab.set_up(&network, &other);
    let server = listen(&ward.ns, "0.0.0.0:80");
    let target: std::net::SocketAddr = format!("{address}:80").parse().unwrap();
    let mut client = at(&other.ns, || TcpStream::connect(target)).unwrap();
    let (mut accepted, _) = server.accept().unwrap();
    let devices = lab.devices();
    assert_eq!(lab.set_up(&network, &ward), address);
    assert_eq!(lab.devices(), devices);
    std::io::Write::write_all(&mut client, b"still").unwrap();
    let mut heard = [0; 5];
    std::io::Read::read_exact(&mut accepted, &mut heard).unwrap();
    assert_eq!(&heard, b"still");
}

#[test]
fn a_sandbox_with_a_new_namespace_keeps_its_address() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let mut ward = Ward::new("one");
    let address = lab.set_up(&network, &ward);
    ward.renew();
    assert_eq!(lab.set_up(&network, &ward), address);
    let server = listen(&ward.ns, "0.0.0.0:80");
    talk(&lab.host, &server, &format!("{address}:80"));
}

#[test]
fn what_is_no_network_namespace_is_refused_and_leaves_nothing() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let mut ward = Ward::new("one");
    for path in ["/proc/self/ns/uts", "/proc/self/ns/missing", "/dev/null"] {
        ward.pod.netns = path.into();
        let error = lab.try_set_up(&network, &ward).unwrap_err();
        assert!(matches!(error, Error::Namespace { .. }) && error.to_string().contains(path), "{error}");
    }
    assert_eq!((lab.leases(&network), lab.lease_files()), (vec![], 0));
    assert_eq!(lab.devices(), ["lo", "up0", "wardlet0"]);
}

#[test]
fn a_pod_that_has_an_eth0_of_its_own_is_refused_and_leaves_nothing() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    at(&ward.ns, || ip("link add eth0 type bridge"));
    let error = lab.try_set_up(&network, &ward).unwrap_err();
    assert!(error.to_string().contains("eth0"), "{error}");
    assert_eq!((lab.leases(&network), lab.lease_files()), (vec![], 0));
    assert_eq!(lab.devices(), ["lo", "up0", "wardlet0"]);
}
