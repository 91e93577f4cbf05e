use std::net::IpAddr;

use rustix::io::Errno;

use super::{AF_UNSPEC, family, ip, octets};
use crate::error::{Error, Result};
use crate::netlink::{Attributes, Request, Socket, find, flags};

const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const GETADDR: u16 = 22;

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
const FLAGS: u16 = 8;
/// Used at once, without duplicate address detection: the lease says that the address is free.
const NODAD: u32 = 0x02;

/// An address of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
    pub(crate) broadcast: Option<IpAddr>,
}

/// Adds an address to a device; idempotent.
pub(crate) fn add_address(socket: &mut Socket, index: u32, address: &Address) -> Result<()> {
    let mut attributes = of(address);
    if let Some(broadcast) = address.broadcast {
        attributes = attributes.bytes(BROADCAST, &octets(broadcast));
    }
    if address.ip.is_ipv6() {
        attributes = attributes.number(FLAGS, NODAD);
    }
    let request = Request::new(NEWADDR, flags::CREATE | flags::REPLACE, &header(index, address), &attributes);
    socket.call(&format!("give an interface the address {}", address.ip), request).map(drop)
}

/// Removes an address from a device; idempotent.
pub(crate) fn remove_address(socket: &mut Socket, index: u32, address: &Address) -> Result<()> {
    let request = Request::new(DELADDR, 0, &header(index, address), &of(address));
    match socket.call(&format!("take the address {} from an interface", address.ip), request) {
        Err(Error::Netlink { errno: Errno::ADDRNOTAVAIL, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The addresses of a device.
pub(crate) fn addresses(socket: &mut Socket, index: u32) -> Result<Vec<Address>> {
    let request = Request::new(GETADDR, flags::DUMP, &[AF_UNSPEC; 8], &Attributes::new());
    let found = socket.call("list the addresses of interfaces", request)?;
    Ok(found.iter().filter_map(|body| read(body, index)).collect())
}

fn header(index: u32, address: &Address) -> Vec<u8> {
    let mut header = vec![family(address.ip), address.prefix, 0, 0];
    header.extend(index.to_ne_bytes());
    header
}

fn of(address: &Address) -> Attributes {
    let octets = octets(address.ip);
    Attributes::new().bytes(LOCAL, &octets).bytes(ADDRESS, &octets)
}

fn read(body: &[u8], wanted: u32) -> Option<Address> {
    let prefix = *body.get(1)?;
    let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let attributes = body.get(8..)?;
    let found = find(attributes, LOCAL).or_else(|| find(attributes, ADDRESS)).and_then(ip)?;
    (index == wanted).then_some(Address { ip: found, prefix, broadcast: None })
}
