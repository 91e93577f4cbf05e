use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::{AF_BRIDGE, AF_UNSPEC, number};
use crate::error::{Error, Result};
use crate::netlink::{Attributes, More, Request, Socket, find, flags, text};

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;

const HARDWARE_ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const PEER: u16 = 5;
const MASTER: u16 = 10;
const PROTINFO: u16 = 12;
const LINKINFO: u16 = 18;
const ALIAS: u16 = 20;
const STATS64: u16 = 23;
const NETNS_FD: u16 = 28;

const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const PORT_HAIRPIN: u16 = 4;

const UP: u32 = 1;

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) up: bool,
    pub(crate) mtu: u32,
    /// The bridge that it is a port of.
    pub(crate) master: Option<u32>,
    /// The interface alias (`ip link set alias`).
    pub(crate) alias: Option<String>,
    /// The index of a veth pair's other end, in its own namespace.
    pub(crate) peer: Option<u32>,
    /// Packets, bytes, errors and dropped packets, for each of them received and sent.
    pub(crate) counters: [u64; 8],
}

/// A bridge to create.
pub(crate) struct Bridge<'a> {
    pub(crate) name: &'a str,
    pub(crate) mtu: u32,
    pub(crate) hardware: [u8; 6],
}

/// A veth pair to create.
pub(crate) struct Pair<'a> {
    pub(crate) name: &'a str,
    pub(crate) mtu: u32,
    pub(crate) master: u32,
    pub(crate) inside: &'a str,
    pub(crate) inside_hardware: [u8; 6],
    pub(crate) netns: BorrowedFd<'a>,
}

/// Changes to a device.
#[derive(Default)]
pub(crate) struct Change<'a> {
    pub(crate) up: bool,
    pub(crate) mtu: Option<u32>,
    pub(crate) master: Option<u32>,
    pub(crate) alias: Option<&'a str>,
}

/// Creates it and sets it up in one step.
pub(crate) fn add_bridge(socket: &mut Socket, bridge: &Bridge<'_>) -> Result<()> {
    let attributes = Attributes::new()
        .text(NAME, bridge.name)
        .number(MTU, bridge.mtu)
        .bytes(HARDWARE_ADDRESS, &bridge.hardware)
        .nest(LINKINFO, &Attributes::new().text(INFO_KIND, "bridge"));
    let request = Request::new(NEWLINK, flags::CREATE | flags::EXCL, &header(AF_UNSPEC, 0, UP), &attributes);
    socket.call(&format!("make the bridge {}", bridge.name), request).map(drop)
}

/// Creates both ends in one step, the inner one in the other namespace with its final name: neither ever exists
/// without the other.
pub(crate) fn add_pair(socket: &mut Socket, pair: &Pair<'_>) -> Result<()> {
    let inner = Attributes::new()
        .text(NAME, pair.inside)
        .number(MTU, pair.mtu)
        .bytes(HARDWARE_ADDRESS, &pair.inside_hardware)
        .bytes(NETNS_FD, &pair.netns.as_raw_fd().to_ne_bytes());
    let peer = [header(AF_UNSPEC, 0, 0), inner.as_bytes().to_vec()].concat();
    let info =
        Attributes::new().text(INFO_KIND, "veth").nest(INFO_DATA, &Attributes::new().bytes(VETH_PEER, &peer));
    let attributes = Attributes::new()
        .text(NAME, pair.name)
        .number(MTU, pair.mtu)
        .number(MASTER, pair.master)
        .nest(LINKINFO, &info);
    let request = Request::new(NEWLINK, flags::CREATE | flags::EXCL, &header(AF_UNSPEC, 0, UP), &attributes);
    socket.call(&format!("make {} with {} in the pod", pair.name, pair.inside), request).map(drop)
}

pub(crate) fn change(socket: &mut Socket, link: &Link, change: &Change<'_>) -> Result<()> {
    let mut attributes = Attributes::new();
    if let Some(mtu) = change.mtu {
        attributes = attributes.number(MTU, mtu);
    }
    if let Some(master) = change.master {
        attributes = attributes.number(MASTER, master);
    }
    if let Some(alias) = change.alias {
        attributes = attributes.bytes(ALIAS, alias.as_bytes());
    }
    let up = if change.up { UP } else { 0 };
    let request = Request::new(SETLINK, 0, &header(AF_UNSPEC, link.index, up), &attributes);
    socket.call(&format!("change the interface {}", link.name), request).map(drop)
}

/// Sets hairpin mode on a port of a bridge.
pub(crate) fn hairpin(socket: &mut Socket, link: &Link) -> Result<()> {
    let attributes = Attributes::new().nest(PROTINFO, &Attributes::new().bytes(PORT_HAIRPIN, &[1]));
    let request = Request::new(SETLINK, 0, &header(AF_BRIDGE, link.index, 0), &attributes);
    socket.call(&format!("let {} send back what came from it", link.name), request).map(drop)
}

/// Removes a device; idempotent.
pub(crate) fn remove_link(socket: &mut Socket, name: &str) -> Result<()> {
    let request = Request::new(DELLINK, 0, &header(AF_UNSPEC, 0, 0), &Attributes::new().text(NAME, name));
    match socket.call(&format!("remove the interface {name}"), request) {
        Err(Error::Netlink { errno: Errno::NODEV, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The device of this name.
pub(crate) fn link(socket: &mut Socket, name: &str) -> Result<Option<Link>> {
    let request = Request::new(GETLINK, 0, &header(AF_UNSPEC, 0, 0), &Attributes::new().text(NAME, name));
    match socket.call(&format!("look at the interface {name}"), request) {
        Ok(found) => Ok(found.iter().find_map(|body| read(body))),
        Err(Error::Netlink { errno: Errno::NODEV, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn links(socket: &mut Socket) -> Result<Vec<Link>> {
    let found = socket.call("list the interfaces", list())?;
    Ok(found.iter().filter_map(|body| read(body)).collect())
}

/// The first `most` devices of a namespace in which a pod may have created any number of them.
pub(crate) fn first_links(mut socket: Socket, most: usize) -> Result<Vec<Link>> {
    let mut found = Vec::new();
    socket.each("list the interfaces", list(), |body| {
        found.extend(read(body));
        if found.len() < most { More::Wanted } else { More::Enough }
    })?;
    Ok(found)
}

fn list() -> Request {
    Request::new(GETLINK, flags::DUMP, &header(AF_UNSPEC, 0, 0), &Attributes::new())
}

/// Only the flags that are set are changed.
fn header(family: u8, index: u32, link_flags: u32) -> Vec<u8> {
    let mut header = vec![family, 0, 0, 0];
    header.extend(index.to_ne_bytes());
    header.extend(link_flags.to_ne_bytes());
    header.extend(link_flags.to_ne_bytes());
    header
}

fn read(body: &[u8]) -> Option<Link> {
    let attributes = body.get(16..)?;
    let info = find(attributes, LINKINFO).and_then(|info| find(info, INFO_KIND));
    Some(Link {
        index: number(body.get(4..)?)?,
        name: text(find(attributes, NAME)?),
        kind: info.map(text).unwrap_or_default(),
        up: number(body.get(8..)?)? & UP != 0,
        mtu: find(attributes, MTU).and_then(number).unwrap_or_default(),
        master: find(attributes, MASTER).and_then(number),
        alias: find(attributes, ALIAS).map(text),
        peer: find(attributes, PEER).and_then(number),
        counters: find(attributes, STATS64).and_then(counters).unwrap_or_default(),
    })
}

fn counters(value: &[u8]) -> Option<[u64; 8]> {
    let mut found = [0; 8];
    for (number, bytes) in found.iter_mut().zip(value.chunks_exact(8)) {
        *number = u64::from_ne_bytes(*bytes.first_chunk()?);
    }
    Some(found)
}
