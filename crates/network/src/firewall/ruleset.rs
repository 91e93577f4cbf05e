//! The rules for host ports and masquerade.
//!
//! | chain | called | does |
//! |---|---|---|
//! | `guard` | before all other chains | drops packets from a pod with a loopback address: `route_localnet` would let them in |
//! | `prerouting`, `output` | for a new connection | to an address of the host: jump to `ports` |
//! | `ports` | from both | DNAT to the pod of the host port |
//! | `postrouting` | for a connection that leaves | from a pod to elsewhere: masquerade as the host. Through a host port to a pod, from a pod or from 127.0.0.1: masquerade as the bridge, or the reply would not come back this way |

use std::net::IpAddr;

use super::expression::{Expression, Register};
use super::nft::{Family, Hook, Map, Table, batch};
use super::{Firewall, Forward};
use crate::netlink::{Request, flags};
use crate::subnet::Subnets;

/// nft's data types of keys and values, six bits each.
const ADDRESS: u32 = 7;
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;

/// Host ports at one of the host's addresses.
const AT_ONE: Map = Map {
    name: "ports-at",
    id: 1,
    key_type: ADDRESS << 12 | PROTOCOL << 6 | PORT,
    key_length: 12,
    value_type: ADDRESS << 6 | PORT,
    value_length: 8,
};
/// Host ports at all addresses.
const AT_ALL: Map = Map {
    name: "ports",
    id: 2,
    key_type: PROTOCOL << 6 | PORT,
    key_length: 8,
    value_type: ADDRESS << 6 | PORT,
    value_length: 8,
};

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
const GUARD: Hook = Hook { kind: "filter", at: PREROUTING, priority: -300 };
const NAT_IN: Hook = Hook { kind: "nat", at: PREROUTING, priority: -100 };
const NAT_OUT: Hook = Hook { kind: "nat", at: OUTPUT, priority: -100 };
const NAT_AFTER: Hook = Hook { kind: "nat", at: POSTROUTING, priority: 100 };

/// Offsets of addresses in the network header.
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
const SOURCE_V6: u32 = 8;

/// All rules. The old ones are deleted in the same transaction.
pub(super) fn whole(firewall: &Firewall, forwards: &[Forward]) -> Vec<Request> {
    let table = v4(firewall);
    // Created first, so that there is a table to delete.
    let mut all = vec![table.add(), table.delete(), table.add()];
    all.extend([table.add_map(&AT_ONE), table.add_map(&AT_ALL)]);
    all.extend(elements(table, forwards));
    all.extend(chains(table, firewall));
    all.extend(v6_rules(firewall));
    acknowledged(batch(all))
}

/// The forwarded ports only.
pub(super) fn ports(firewall: &Firewall, forwards: &[Forward]) -> Vec<Request> {
    let table = v4(firewall);
    let mut all = vec![table.clear(&AT_ONE), table.clear(&AT_ALL)];
    all.extend(elements(table, forwards));
    acknowledged(batch(all))
}

fn v4(firewall: &Firewall) -> Table<'_> {
    Table { family: Family::V4, name: &firewall.bridge }
}

fn v6(firewall: &Firewall) -> Table<'_> {
    Table { family: Family::V6, name: &firewall.bridge }
}

/// The kernel reports failures in any case; this asks it to acknowledge success as well, once.
pub(super) fn acknowledged(mut requests: Vec<Request>) -> Vec<Request> {
    if let Some(first) = requests.get_mut(1) {
        first.flags |= flags::ACK;
    }
    requests
}

fn chains(table: Table<'_>, firewall: &Firewall) -> Vec<Request> {
    use Expression::{ComesBy, Drop, Forwarded, Jump, LeavesBy, LeavesByOther, Masquerade, ToTheHost};
    let bridge = || firewall.bridge.clone();
    let loopback =
        |offset| Expression::Within { offset, mask: vec![255, 0, 0, 0], value: vec![127, 0, 0, 0] };
    let mut all = vec![
        table.add_chain("guard", Some(&GUARD)),
        table.add_rule("guard", &[ComesBy(bridge()), loopback(DESTINATION), Drop]),
        table.add_rule("guard", &[ComesBy(bridge()), loopback(SOURCE), Drop]),
        table.add_chain("ports", None),
        table.add_rule("ports", &at_one()),
        table.add_rule("ports", &at_all()),
        table.add_chain("prerouting", Some(&NAT_IN)),
        table.add_rule("prerouting", &[ToTheHost, Jump("ports")]),
        table.add_chain("output", Some(&NAT_OUT)),
        table.add_rule("output", &[ToTheHost, Jump("ports")]),
        table.add_chain("postrouting", Some(&NAT_AFTER)),
        table.add_rule("postrouting", &[LeavesBy(bridge()), loopback(SOURCE), Masquerade]),
    ];
    for subnet in firewall.subnets.iter().map(Subnets::v4) {
        let from = Expression::Within {
            offset: SOURCE,
            mask: subnet.mask().to_be_bytes().to_vec(),
            value: subnet.base().octets().to_vec(),
        };
        let to_pod = [LeavesBy(bridge()), from.clone(), Forwarded, Masquerade];
        let to_elsewhere = [LeavesByOther(bridge()), from, Masquerade];
        all.extend([table.add_rule("postrouting", &to_pod), table.add_rule("postrouting", &to_elsewhere)]);
    }
    all
}

/// Also without an IPv6 subnet: old rules are deleted.
fn v6_rules(firewall: &Firewall) -> Vec<Request> {
    let table = v6(firewall);
    let subnets: Vec<_> = firewall.subnets.iter().filter_map(Subnets::v6).collect();
    let mut all = vec![table.add(), table.delete()];
    if !subnets.is_empty() {
        all.extend([table.add(), table.add_chain("postrouting", Some(&NAT_AFTER))]);
    }
    for subnet in subnets {
        let from = Expression::Within {
            offset: SOURCE_V6,
            mask: subnet.mask().to_be_bytes().to_vec(),
            value: subnet.base().octets().to_vec(),
        };
        let leaves = Expression::LeavesByOther(firewall.bridge.clone());
        all.push(table.add_rule("postrouting", &[from, leaves, Expression::Masquerade]));
    }
    all
}

fn at_one() -> Vec<Expression> {
    let [address, protocol, port, to, to_port] = [0, 1, 2, 3, 4].map(Register::nth);
    vec![
        Expression::Network { offset: DESTINATION, length: 4, into: address },
        Expression::Protocol { into: protocol },
        Expression::DestinationPort { into: port },
        Expression::Lookup { map: AT_ONE.name, id: AT_ONE.id, key: address, value: to },
        Expression::Destination { address: to, port: to_port },
    ]
}

fn at_all() -> Vec<Expression> {
    let [protocol, port, to, to_port] = [0, 1, 2, 3].map(Register::nth);
    vec![
        Expression::Protocol { into: protocol },
        Expression::DestinationPort { into: port },
        Expression::Lookup { map: AT_ALL.name, id: AT_ALL.id, key: protocol, value: to },
        Expression::Destination { address: to, port: to_port },
    ]
}

fn elements(table: Table<'_>, forwards: &[Forward]) -> Vec<Request> {
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for forward in forwards {
        let key =
            [word(&[forward.from.protocol.number()]), word(&forward.from.host_port.to_be_bytes())].concat();
        let value = [forward.to.octets().to_vec(), word(&forward.from.container_port.to_be_bytes())].concat();
        match forward.from.only_at() {
            None => all.push((key, value)),
            Some(IpAddr::V4(ip)) => one.push(([ip.octets().to_vec(), key].concat(), value)),
            // No pod has such a port.
            Some(IpAddr::V6(_)) => {}
        }
    }
    [table.add_elements(&AT_ONE, &one), table.add_elements(&AT_ALL, &all)].concat()
}

/// Each part of a key and of a value is padded to 32-bit registers.
fn word(bytes: &[u8]) -> Vec<u8> {
    let mut word = bytes.to_vec();
    word.resize(4, 0);
    word
}
