//! Source address checks: a packet from a pod's port with an address that is not the pod's is dropped.
//!
//! A pod with all capabilities in its own network namespace can send any bytes. What counts is the port of the bridge
//! that they arrive on, which belongs to the host, and what was leased to the pod behind it.
//!
//! | rule | verdict |
//! |---|---|
//! | a port of another bridge | accept |
//! | hardware address that is not the pod's | drop |
//! | IPv4 from the pod's address; ARP with the pod's sender address | accept |
//! | neighbour advertisements for another address, router advertisements, redirects | drop |
//! | IPv6 from the pod's addresses; neighbour discovery before it has one | accept |
//! | anything else | drop |

use std::net::{IpAddr, Ipv6Addr};

use super::expression::{Expression, Register};
use super::nft::{Family, Hook, Map, Table, batch};
use super::ruleset::acknowledged;
use super::{Firewall, Port};
use crate::netlink::Request;

/// nft's data types of keys, six bits each.
const NAME: u32 = 41;
const HARDWARE: u32 = 9;
const ADDRESS: u32 = 7;
const ADDRESS_V6: u32 = 8;

/// Lengths of a key's parts, each padded to 32-bit registers.
const NAME_LENGTH: u32 = 16;
const HARDWARE_LENGTH: u32 = 8;

const PORTS: Map = set("ports", 1, NAME, NAME_LENGTH);
const HOLDERS: Map = set("hardware", 2, NAME << 6 | HARDWARE, NAME_LENGTH + HARDWARE_LENGTH);
const V4: Map = set("addresses", 3, NAME << 12 | HARDWARE << 6 | ADDRESS, NAME_LENGTH + HARDWARE_LENGTH + 4);
const V6: Map =
    set("addresses-v6", 4, NAME << 12 | HARDWARE << 6 | ADDRESS_V6, NAME_LENGTH + HARDWARE_LENGTH + 16);
const ALL: [&Map; 4] = [&PORTS, &HOLDERS, &V4, &V6];

const PREROUTING: u32 = 0;
/// Before every other chain sees a packet.
const FIRST: Hook = Hook { kind: "filter", at: PREROUTING, priority: -300 };
const CHAIN: &str = "own";

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECTION: u8 = 137;

/// Offsets in the link layer header, the network header, ARP, and a neighbour advertisement.
const LINK_SOURCE: u32 = 6;
const V4_SOURCE: u32 = 12;
const V6_SOURCE: u32 = 8;
const ARP_HARDWARE: u32 = 8;
const ARP_SOURCE: u32 = 14;
const ADVERTISED: u32 = 8;

const DEVICE_AT: Register = Register::nth(0);
const HARDWARE_AT: Register = Register::nth(4);
const ADDRESS_AT: Register = Register::nth(6);

const fn set(name: &'static str, id: u32, key_type: u32, key_length: u32) -> Map {
    Map { name, id, key_type, key_length, value_type: 0, value_length: 0 }
}

/// All rules. The old ones are deleted in the same transaction.
pub(super) fn whole(firewall: &Firewall, ports: &[Port]) -> Vec<Request> {
    let table = table(firewall);
    // Created first, so that there is a table to delete.
    let mut all = vec![table.add(), table.delete(), table.add()];
    all.extend(ALL.map(|set| table.add_map(set)));
    all.extend(elements(table, ports));
    all.push(table.add_chain(CHAIN, Some(&FIRST)));
    all.extend(rules().iter().map(|rule| table.add_rule(CHAIN, rule)));
    acknowledged(batch(all))
}

/// Replaces the elements of all sets: the addresses of each port.
pub(super) fn holders(firewall: &Firewall, ports: &[Port]) -> Vec<Request> {
    let table = table(firewall);
    let mut all: Vec<Request> = ALL.map(|set| table.clear(set)).into();
    all.extend(elements(table, ports));
    acknowledged(batch(all))
}

fn table(firewall: &Firewall) -> Table<'_> {
    Table { family: Family::Bridge, name: &firewall.bridge }
}

fn rules() -> Vec<Vec<Expression>> {
    use Expression::{Accept, Carries, Drop, EtherType, Known, Says, Unknown, Within};
    let known = |set: &'static Map| Known { set: set.name, id: set.id, key: DEVICE_AT };
    let unknown = |set: &'static Map| Unknown { set: set.name, id: set.id, key: DEVICE_AT };
    let device = || Expression::Device { into: DEVICE_AT };
    let sender = || Expression::Link { offset: LINK_SOURCE, length: 6, into: HARDWARE_AT };
    let network = |offset, length| Expression::Network { offset, length, into: ADDRESS_AT };
    let arp_sender = Expression::Network { offset: ARP_HARDWARE, length: 6, into: HARDWARE_AT };
    let advertised = Expression::Transport { offset: ADVERTISED, length: 16, into: ADDRESS_AT };
    let from_nowhere = Within { offset: V6_SOURCE, mask: vec![255; 16], value: vec![0; 16] };
    let says = |what| vec![EtherType(IPV6), Carries(ICMPV6), Says(what)];
    let lying = [device(), sender(), advertised, unknown(&V6), Drop];
    vec![
        vec![device(), unknown(&PORTS), Accept],
        vec![device(), sender(), unknown(&HOLDERS), Drop],
        vec![EtherType(IPV4), device(), sender(), network(V4_SOURCE, 4), known(&V4), Accept],
        vec![EtherType(ARP), device(), arp_sender, network(ARP_SOURCE, 4), known(&V4), Accept],
        [says(ROUTER_ADVERTISEMENT), vec![Drop]].concat(),
        [says(REDIRECTION), vec![Drop]].concat(),
        [says(NEIGHBOUR_ADVERTISEMENT), lying.into()].concat(),
        vec![EtherType(IPV6), device(), sender(), network(V6_SOURCE, 16), known(&V6), Accept],
        vec![EtherType(IPV6), Carries(ICMPV6), from_nowhere, Accept],
        vec![Drop],
    ]
}

fn elements(table: Table<'_>, ports: &[Port]) -> Vec<Request> {
    let (mut names, mut holders, mut v4, mut v6) = (vec![], vec![], vec![], vec![]);
    for port in ports {
        let name = padded(port.device.as_bytes(), 16);
        let holder = [name.clone(), padded(&port.hardware, 8)].concat();
        let own = |address: &[u8]| (([holder.clone(), address.to_vec()].concat()), vec![]);
        for address in &port.addresses {
            match address {
                IpAddr::V4(address) => v4.push(own(&address.octets())),
                IpAddr::V6(address) => v6.push(own(&address.octets())),
            }
        }
        v6.push(own(&link_local(port.hardware).octets()));
        names.push((name, vec![]));
        holders.push((holder, vec![]));
    }
    let sets = [(&PORTS, names), (&HOLDERS, holders), (&V4, v4), (&V6, v6)];
    sets.iter().flat_map(|(set, elements)| table.add_elements(set, elements)).collect()
}

/// The link-local address that the kernel assigns to a device by itself (EUI-64).
fn link_local(hardware: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = hardware;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn padded(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(length, 0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_the_kernels() {
        let hardware = [0x0a, 0x58, 10, 88, 0, 2];
        assert_eq!(link_local(hardware).to_string(), "fe80::858:aff:fe58:2");
    }
}
