//! Addresses: who has them, for how long, and what stands in the way.

use crate::support;

use network::{Error, Kind, Network, Settings};
use support::*;

fn address(lab: &Lab, network: &network::Network, ward: &Ward) -> String {
    lab.set_up(network, ward).to_string()
}

#[test]
fn when_all_are_leased_the_next_pod_is_refused_and_the_oldest_free_one_is_given_next() {
    let lab = Lab::new();
    let network = lab.open(bridge_with("10.8.0.0/29"));
    let wards: Vec<_> = (0..5).map(|n| Ward::new(&format!("pod-{n}"))).collect();
    let given: Vec<_> = wards.iter().map(|ward| address(&lab, &network, ward)).collect();
    assert_eq!(given, ["10.8.0.2", "10.8.0.3", "10.8.0.4", "10.8.0.5", "10.8.0.6"]);
    let late = Ward::new("late");
    let error = lab.try_set_up(&network, &late).unwrap_err();
    assert_eq!(error.to_string(), "all 5 addresses for pods of 10.8.0.0/29 are in use");
    assert!(error.hint().unwrap().contains("--bridge-subnet"));
    assert_eq!(lab.lease_files(), 5);
    for number in [3, 1] {
        lab.tear_down(&network, &wards[number]);
    }
    assert_eq!(address(&lab, &network, &late), "10.8.0.5");
    let server = listen(&late.ns, "0.0.0.0:80");
    talk(&wards[0].ns, &server, "10.8.0.5:80");
}

#[test]
fn a_lease_outlives_the_server_and_its_pod_works_on() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let first = address(&lab, &network, &one);
    let gone = address(&lab, &network, &two);
    lab.tear_down(&network, &two);
    drop(network);
    let network = lab.open(bridge());
    assert_eq!(lab.leases(&network), [one.pod.id.as_str()]);
    let server = listen(&one.ns, "0.0.0.0:80");
    talk(&lab.host, &server, &format!("{first}:80"));
    let three = Ward::new("three");
    let third = address(&lab, &network, &three);
    assert!(![&first, &gone].contains(&&third), "{third}: the one that was given back last rests longest");
    // Recovery frees what has no sandbox any more, knowing nothing but the ID.
    lab.runtime.block_on(network.tear_down(&one.pod.id, None)).unwrap();
    lab.runtime.block_on(network.tear_down(&one.pod.id, None)).unwrap();
    assert_eq!(lab.leases(&network), [three.pod.id.as_str()]);
}

#[test]
fn a_subnet_that_the_host_uses_is_refused_by_name() {
    let lab = Lab::new();
    lab.at_host(|| ip(&format!("route add 10.244.0.0/16 via {OUTSIDE}")));
    let error = lab.try_open(bridge()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the pods' subnet 10.244.77.0/24 overlaps the host's route to 10.244.0.0/16 by up0"
    );
    assert!(error.hint().is_some());
    assert_eq!(lab.devices(), ["lo", "up0"], "nothing was made");
    let error = lab.try_open(bridge_with("192.0.2.0/25")).unwrap_err();
    assert!(error.to_string().contains("by up0"), "{error}");
    let error = lab.try_open(bridge_with("10.7.0.0/24,2001:db8::/64")).unwrap_err();
    assert!(error.to_string().contains("2001:db8::"), "{error}");
    lab.open(bridge_with("10.7.0.0/24"));
}

#[test]
fn a_device_that_is_no_bridge_is_left_alone() {
    let lab = Lab::new();
    lab.at_host(|| ip("link add wardlet0 type veth peer name other"));
    let error = lab.try_open(bridge()).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }) && error.to_string().contains("veth"), "{error}");
    assert_eq!(lab.devices().len(), 4);
}

/// Without given subnets, the second was refused: both had the same.
#[test]
fn two_networks_of_one_host_have_subnets_of_their_own_and_keep_their_bridges() {
    let lab = Lab::new();
    let first = lab.open(bridge());
    let named = |name: &str| Kind::Bridge { name: name.into(), subnets: None, mtu: None };
    let elsewhere = tempfile::tempdir().unwrap();
    let open_other = || {
        let settings = Settings { state: elsewhere.path().to_owned(), kind: named("wardlet-0000001") };
        lab.at_host(|| lab.runtime.block_on(Network::open(settings))).unwrap()
    };
    let other = open_other();
    let shown = || lab.at_host(|| ip("-o -4 addr show wardlet-0000001"));
    let before = shown();
    assert!(before.contains("10.244.") && !before.contains("10.244.77."), "{before}");
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    assert_eq!(address(&lab, &first, &one), "10.244.77.2");
    lab.set_up(&other, &two);
    // The default subnet is free now, and the pods of the other network keep theirs.
    drop((first, other));
    lab.at_host(|| ip("addr flush dev wardlet0"));
    let other = open_other();
    assert_eq!(shown(), before);
    drop(other);
    // Before bridges were named by state directory, this one was made as wardlet0.
    let kept = lab.open(named("wardlet-0000002"));
    assert_eq!(address(&lab, &kept, &one), "10.244.77.2");
    assert!(!lab.devices().contains(&"wardlet-0000002".to_owned()), "{:?}", lab.devices());
}

#[test]
fn one_state_has_one_server() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    assert!(matches!(lab.try_open(bridge()), Err(Error::Locked { .. })));
    drop(network);
    lab.open(bridge());
}

#[test]
fn the_cluster_says_the_subnet_unless_the_settings_do() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let (one, two, three) = (Ward::new("one"), Ward::new("two"), Ward::new("three"));
    lab.set_up(&network, &one);
    lab.runtime.block_on(network.set_pod_cidr("10.6.1.0/24")).unwrap();
    lab.runtime.block_on(network.set_pod_cidr("")).unwrap();
    assert_eq!(address(&lab, &network, &two), "10.6.1.2");
    let outside = listen(&lab.outside, "0.0.0.0:80");
    for ward in [&one, &two] {
        assert_eq!(talk(&ward.ns, &outside, &format!("{OUTSIDE}:80")).to_string(), HOST, "both subnets work");
    }
    drop(network);
    let network = lab.open(bridge());
    assert_eq!(address(&lab, &network, &three), "10.6.1.3", "it is remembered");
    assert_eq!(address(&lab, &network, &one), "10.244.77.2", "a pod keeps what it has");
    assert!(lab.runtime.block_on(network.set_pod_cidr("fd00::/64")).is_err());
    drop(network);
    let network = lab.open(bridge_with("10.5.0.0/24"));
    lab.runtime.block_on(network.set_pod_cidr("10.6.1.0/24")).unwrap();
    assert!(network.notices().iter().any(|words| words.contains("10.5.0.0/24 as set")));
    assert_eq!(address(&lab, &network, &Ward::new("four")), "10.5.0.2");
    for ward in [&one, &two, &three] {
        assert_eq!(talk(&ward.ns, &outside, &format!("{OUTSIDE}:80")).to_string(), HOST);
    }
}

#[test]
fn a_lease_that_cannot_be_read_keeps_its_address_out_of_use() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    lab.set_up(&network, &one);
    drop(network);
    let leases = lab.dir.path().join("network/leases");
    std::fs::write(leases.join("10.244.77.3"), "{").unwrap();
    std::fs::write(leases.join("10.244.77.9.new"), "half").unwrap();
    let network = lab.open(bridge());
    assert!(network.notices().iter().any(|words| words.contains("10.244.77.3 stays out of use")));
    assert_eq!(address(&lab, &network, &two), "10.244.77.4");
    assert!(!leases.join("10.244.77.9.new").exists());
    assert_eq!(lab.leases(&network).len(), 2);
}

#[test]
fn what_is_at_the_bridge_without_a_lease_is_removed() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    drop(network);
    std::fs::remove_file(lab.dir.path().join("network/leases/10.244.77.2")).unwrap();
    // One with a name like ours that is not at our bridge is another's.
    lab.at_host(|| ip("link add wlan9 type veth peer name wlan8"));
    let network = lab.open(bridge());
    assert!(network.notices().iter().any(|words| words.contains("was no pod's")));
    let mut left = lab.devices();
    left.sort();
    assert_eq!(left, ["lo", "up0", "wardlet0", "wlan8", "wlan9"]);
}

#[test]
fn pods_of_a_bridge_are_taken_from_it_also_when_there_is_none_any_more() {
    let lab = Lab::new();
    let network = lab.open(bridge());
    let ward = Ward::new("one");
    lab.set_up(&network, &ward);
    drop(network);
    let network = lab.open(Kind::None);
    assert_eq!(lab.leases(&network), [ward.pod.id.as_str()]);
    lab.tear_down(&network, &ward);
    assert_eq!((lab.leases(&network), lab.lease_files()), (vec![], 0));
    assert_eq!(lab.devices(), ["lo", "up0", "wardlet0"]);
}
