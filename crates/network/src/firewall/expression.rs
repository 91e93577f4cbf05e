//! nftables expressions: steps of a rule that load, compare and decide.

use super::nft::data;
use crate::netlink::Attributes;

/// A 32-bit register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(pub(super) u32);

impl Register {
    /// The `n`th 32-bit register.
    pub(super) const fn nth(n: u32) -> Self {
        Self(8 + n)
    }
}

/// Register 1, in which all comparisons take place: 16 bytes, the first four 32-bit registers.
const HERE: u32 = 1;

/// One step of a rule. A comparison that fails ends the rule (`NFT_BREAK`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// `meta iifname`, loaded.
    Device { into: Register },
    /// `payload load` from the link layer header.
    Link { offset: u32, length: u32, into: Register },
    /// `payload load` from the transport header.
    Transport { offset: u32, length: u32, into: Register },
    /// `ether type`.
    EtherType(u16),
    /// `meta l4proto`.
    Carries(u8),
    /// `icmpv6 type`.
    Says(u8),
    /// `lookup`: matches if the set has the key.
    Known { set: &'static str, id: u32, key: Register },
    /// `lookup` inverted: matches if the set does not have the key.
    Unknown { set: &'static str, id: u32, key: Register },
    /// `payload load` from the network header.
    Network { offset: u32, length: u32, into: Register },
    /// `th dport`, loaded.
    DestinationPort { into: Register },
    /// `meta l4proto`, loaded.
    Protocol { into: Register },
    /// `meta iifname`.
    ComesBy(String),
    /// `meta oifname`.
    LeavesBy(String),
    /// `meta oifname !=`.
    LeavesByOther(String),
    /// Compares bytes of the network header under a mask.
    Within { offset: u32, mask: Vec<u8>, value: Vec<u8> },
    /// `fib daddr type local`.
    ToTheHost,
    /// `ct status dnat`.
    Forwarded,
    /// `lookup` in a map: matches if it has the key, and loads the value.
    Lookup { map: &'static str, id: u32, key: Register, value: Register },
    /// `dnat to`.
    Destination { address: Register, port: Register },
    /// `masquerade`.
    Masquerade,
    /// `accept`.
    Accept,
    /// `drop`.
    Drop,
    /// `jump`.
    Jump(&'static str),
}

const META_PROTOCOL: u32 = 1;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_L4PROTO: u32 = 16;
const LINK_HEADER: u32 = 0;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const CT_STATUS: u32 = 2;
const FIB_ADDRTYPE: u32 = 3;
const FIB_DESTINATION: u32 = 2;
const LOCAL: u32 = 2;
const DESTINATION_CHANGED: u32 = 1 << 5;
const TO_DESTINATION: u32 = 1;
const IPV4: u32 = 2;
const JUMP: i32 = -3;
const ACCEPT: u32 = 1;
const INVERTED: u32 = 1;

impl Expression {
    /// The netlink attributes of all expressions that it takes.
    pub(super) fn steps(&self) -> Vec<Attributes> {
        match self {
            Self::ComesBy(device) => vec![meta(META_IIFNAME, HERE), compare(EQUAL, &name(device))],
            Self::LeavesBy(device) => vec![meta(META_OIFNAME, HERE), compare(EQUAL, &name(device))],
            Self::LeavesByOther(device) => vec![meta(META_OIFNAME, HERE), compare(NOT_EQUAL, &name(device))],
            Self::EtherType(kind) => vec![meta(META_PROTOCOL, HERE), compare(EQUAL, &kind.to_be_bytes())],
            Self::Carries(protocol) => vec![meta(META_L4PROTO, HERE), compare(EQUAL, &[*protocol])],
            Self::Says(kind) => vec![payload(TRANSPORT_HEADER, 0, 1, HERE), compare(EQUAL, &[*kind])],
            Self::Within { offset, mask, value } => vec![
                payload(NETWORK_HEADER, *offset, length(mask), HERE),
                masked(mask),
                compare(EQUAL, value),
            ],
            Self::ToTheHost => vec![fib(), compare(EQUAL, &LOCAL.to_ne_bytes())],
            Self::Forwarded => vec![
                named("ct", &Attributes::new().number_be(1, HERE).number_be(2, CT_STATUS)),
                masked(&DESTINATION_CHANGED.to_ne_bytes()),
                compare(NOT_EQUAL, &0_u32.to_ne_bytes()),
            ],
            other => vec![other.step()],
        }
    }

    fn step(&self) -> Attributes {
        match self {
            Self::Network { offset, length, into } => payload(NETWORK_HEADER, *offset, *length, into.0),
            Self::Device { into } => meta(META_IIFNAME, into.0),
            Self::Link { offset, length, into } => payload(LINK_HEADER, *offset, *length, into.0),
            Self::Transport { offset, length, into } => payload(TRANSPORT_HEADER, *offset, *length, into.0),
            Self::Known { set, id, key } => named("lookup", &member(set, *id, *key)),
            Self::Unknown { set, id, key } => named("lookup", &member(set, *id, *key).number_be(5, INVERTED)),
            Self::Accept => verdict(&Attributes::new().number_be(1, ACCEPT)),
            Self::DestinationPort { into } => payload(TRANSPORT_HEADER, 2, 2, into.0),
            Self::Protocol { into } => meta(META_L4PROTO, into.0),
            Self::Lookup { map, id, key, value } => {
                let lookup = Attributes::new()
                    .text(1, map)
                    .number_be(2, key.0)
                    .number_be(3, value.0)
                    .number_be(4, *id);
                named("lookup", &lookup)
            }
            Self::Destination { address, port } => {
                let nat = Attributes::new()
                    .number_be(1, TO_DESTINATION)
                    .number_be(2, IPV4)
                    .number_be(3, address.0)
                    .number_be(5, port.0);
                named("nat", &nat)
            }
            Self::Masquerade => named("masq", &Attributes::new()),
            Self::Jump(chain) => verdict(&Attributes::new().bytes(1, &JUMP.to_be_bytes()).text(2, chain)),
            _ => verdict(&Attributes::new().number_be(1, 0)),
        }
    }
}

fn member(set: &str, id: u32, key: Register) -> Attributes {
    Attributes::new().text(1, set).number_be(2, key.0).number_be(4, id)
}

fn named(kind: &str, attributes: &Attributes) -> Attributes {
    Attributes::new().text(1, kind).nest(2, attributes)
}

fn meta(key: u32, into: u32) -> Attributes {
    named("meta", &Attributes::new().number_be(1, into).number_be(2, key))
}

fn payload(base: u32, offset: u32, length: u32, into: u32) -> Attributes {
    let what =
        Attributes::new().number_be(1, into).number_be(2, base).number_be(3, offset).number_be(4, length);
    named("payload", &what)
}

fn fib() -> Attributes {
    let what = Attributes::new().number_be(1, HERE).number_be(2, FIB_ADDRTYPE).number_be(3, FIB_DESTINATION);
    named("fib", &what)
}

fn masked(mask: &[u8]) -> Attributes {
    let nothing = vec![0; mask.len()];
    let what = Attributes::new()
        .number_be(1, HERE)
        .number_be(2, HERE)
        .number_be(3, length(mask))
        .nest(4, &data(mask))
        .nest(5, &data(&nothing));
    named("bitwise", &what)
}

fn compare(how: u32, value: &[u8]) -> Attributes {
    named("cmp", &Attributes::new().number_be(1, HERE).number_be(2, how).nest(3, &data(value)))
}

/// The verdict register is register 0.
fn verdict(what: &Attributes) -> Attributes {
    let decision = Attributes::new().nest(2, what);
    named("immediate", &Attributes::new().number_be(1, 0).nest(2, &decision))
}

/// Names of devices are compared over their whole length, with trailing zeros.
fn name(device: &str) -> Vec<u8> {
    let mut bytes = device.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
