//! What rules are made of: steps that load, compare and decide.

use super::nft::data;
use crate::netlink::Attributes;

/// Registers of four bytes: as many as the longest key has parts, and its value behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(pub(super) u32);

impl Register {
    /// The `n`th register of four bytes.
    pub(super) const fn nth(n: u32) -> Self {
        Self(8 + n)
    }
}

/// Where all comparisons take place: 16 bytes, the first four of the small registers.
const HERE: u32 = 1;

/// One step of a rule. A comparison that fails ends the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads the name of the device that the packet comes by.
    Device { into: Register },
    /// Loads from the link's header.
    Link { offset: u32, length: u32, into: Register },
    /// Loads from the header behind the network's.
    Transport { offset: u32, length: u32, into: Register },
    /// Goes on if the frame is of this kind.
    EtherType(u16),
    /// Goes on if the packet is of this protocol.
    Carries(u8),
    /// Goes on if the message is of this kind.
    Says(u8),
    /// Goes on if what begins at `key` is in the set.
    Known { set: &'static str, id: u32, key: Register },
    /// Goes on if it is not.
    Unknown { set: &'static str, id: u32, key: Register },
    /// Loads from the network header.
    Network { offset: u32, length: u32, into: Register },
    /// Loads the destination's port.
    DestinationPort { into: Register },
    /// Loads the number of the protocol that has ports.
    Protocol { into: Register },
    /// Goes on if the packet comes in by this device.
    ComesBy(String),
    /// Goes on if the packet leaves by this device.
    LeavesBy(String),
    /// Goes on if the packet leaves by another device.
    LeavesByOther(String),
    /// Goes on if these bytes of the network header are, under the mask, as given.
    Within { offset: u32, mask: Vec<u8>, value: Vec<u8> },
    /// Goes on if the destination is an address of the host.
    ToTheHost,
    /// Goes on if the connection's destination has been changed.
    Forwarded,
    /// Looks up what begins at `key`; goes on with the value in `value` if there is one.
    Lookup { map: &'static str, id: u32, key: Register, value: Register },
    /// Changes the destination.
    Destination { address: Register, port: Register },
    /// Changes the source to the address of the device that it leaves by.
    Masquerade,
    /// The packet is let through, as far as this table goes.
    Accept,
    /// The packet is not let through.
    Drop,
    /// Goes on in another chain, and comes back.
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
    /// One attribute list with all steps that it takes.
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

/// The verdict register is the first.
fn verdict(what: &Attributes) -> Attributes {
    let decision = Attributes::new().nest(2, what);
    named("immediate", &Attributes::new().number_be(1, 0).nest(2, &decision))
}

/// Names of devices are compared as a whole, zeros included.
fn name(device: &str) -> Vec<u8> {
    let mut bytes = device.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
