//! The network of a cluster's node: addresses come from the subnets that the cluster assigns.

use network::{Error, Kind, Network};

use crate::support::*;

fn kind() -> Kind {
    Kind::ClusterBridge { name: "wardlet0".into(), mtu: None }
}

fn assign(lab: &Lab, network: &Network, cidrs: &str) -> network::Result<()> {
    lab.runtime.block_on(network.set_pod_cidr(cidrs))
}

fn readiness(lab: &Lab, network: &Network) -> Result<(), String> {
    lab.runtime.block_on(network.ready())
}

#[test]
fn there_is_no_network_before_the_cluster_has_assigned_subnets() {
    let lab = Lab::new();
    let network = lab.open(kind());
    assert!(readiness(&lab, &network).unwrap_err().contains("podCIDRs"));
    let pod = Ward::new("one");
    assert!(matches!(lab.try_set_up(&network, &pod), Err(Error::NoPodCidr { refused: None })));
    assert!(!lab.devices().contains(&"wardlet0".to_owned()), "{:?}", lab.devices());
    lab.tear_down(&network, &pod);

    // A kubelet sends an empty one while it has none.
    assign(&lab, &network, "").unwrap();
    assert!(readiness(&lab, &network).is_err());
    // One that cannot be used is reported until there is another.
    assert!(assign(&lab, &network, "192.0.2.0/24").is_err());
    let why = readiness(&lab, &network).unwrap_err();
    assert!(why.contains("cannot be used") && why.contains("192.0.2.0/24"), "{why}");

    assign(&lab, &network, "10.9.0.0/24,fd00:9::/64").unwrap();
    assert_eq!(readiness(&lab, &network), Ok(()));
    let ips = lab.try_set_up(&network, &pod).unwrap().ips;
    assert_eq!(ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.9.0.2", "fd00:9::2"]);
    let server = listen(&pod.ns, "[::]:80");
    talk(&lab.host, &server, "[fd00:9::2]:80");
}

#[test]
fn after_a_restart_pods_keep_their_addresses_and_new_ones_start_before_the_cluster_is_asked() {
    let lab = Lab::new();
    let network = lab.open(kind());
    assign(&lab, &network, "10.9.0.0/24").unwrap();
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let before = lab.set_up(&network, &one);
    drop(network);
    let network = lab.open(kind());
    assert_eq!(readiness(&lab, &network), Ok(()));
    assert_eq!(lab.set_up(&network, &one), before);
    assert_eq!(lab.set_up(&network, &two).to_string(), "10.9.0.3");
    let server = listen(&one.ns, "0.0.0.0:80");
    talk(&two.ns, &server, &format!("{before}:80"));
    // The same subnets again change nothing.
    assign(&lab, &network, "10.9.0.0/24").unwrap();
    assert_eq!(lab.set_up(&network, &one), before);
    lab.tear_down(&network, &one);
    lab.tear_down(&network, &two);
    assert!(lab.leases(&network).is_empty());
}
