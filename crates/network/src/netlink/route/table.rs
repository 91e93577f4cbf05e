use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{AF_INET, AF_UNSPEC, family, ip, number, octets};
use crate::error::Result;
use crate::netlink::{Attributes, Request, Socket, find, flags};

const NEWROUTE: u16 = 24;
const GETROUTE: u16 = 26;

const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;

const MAIN: u8 = 254;
const STATIC: u8 = 4;
const UNIVERSE: u8 = 0;
const UNICAST: u8 = 1;
/// `RTM_F_CLONED`: a cached copy for a single flow.
const CLONED: u32 = 0x200;

/// A route of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: IpAddr,
    pub(crate) prefix: u8,
    /// The device that it leads to.
    pub(crate) device: Option<u32>,
}

impl Route {
    pub(crate) fn is_default(&self) -> bool {
        self.prefix == 0
    }

    /// Whether the route and the given subnet have an address in common.
    pub(crate) fn overlaps(&self, base: IpAddr, prefix: u8) -> bool {
        let shorter = u32::from(self.prefix.min(prefix));
        match (self.to, base) {
            (IpAddr::V4(one), IpAddr::V4(two)) => {
                let differing = one.to_bits() ^ two.to_bits();
                differing.leading_zeros() >= shorter
            }
            (IpAddr::V6(one), IpAddr::V6(two)) => {
                let differing = one.to_bits() ^ two.to_bits();
                differing.leading_zeros() >= shorter
            }
            _ => false,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.to, self.prefix)
    }
}

/// Adds a default route through a gateway; idempotent.
pub(crate) fn add_default(socket: &mut Socket, index: u32, gateway: IpAddr) -> Result<()> {
    let header = [family(gateway), 0, 0, 0, MAIN, STATIC, UNIVERSE, UNICAST, 0, 0, 0, 0];
    let attributes = Attributes::new().bytes(GATEWAY, &octets(gateway)).number(DEVICE, index);
    let request = Request::new(NEWROUTE, flags::CREATE | flags::REPLACE, &header, &attributes);
    socket.call(&format!("make {gateway} the default gateway"), request).map(drop)
}

/// All routes of all tables, the host's own addresses among them.
pub(crate) fn routes(socket: &mut Socket) -> Result<Vec<Route>> {
    let request = Request::new(GETROUTE, flags::DUMP, &[AF_UNSPEC; 12], &Attributes::new());
    let found = socket.call("list the routes", request)?;
    Ok(found.iter().filter_map(|body| read(body)).collect())
}

fn read(body: &[u8]) -> Option<Route> {
    let (family, prefix) = (*body.first()?, *body.get(1)?);
    let route_flags = u32::from_ne_bytes(*body.get(8..)?.first_chunk()?);
    let attributes = body.get(12..)?;
    let any: IpAddr =
        if family == AF_INET { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let to = find(attributes, DESTINATION).and_then(ip).unwrap_or(any);
    let device = find(attributes, DEVICE).and_then(number);
    (route_flags & CLONED == 0).then_some(Route { to, prefix, device })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> (IpAddr, u8) {
        let (address, prefix) = text.split_once('/').unwrap();
        (address.parse().unwrap(), prefix.parse().unwrap())
    }

    fn overlap(route: &str, subnet: &str) -> bool {
        let ((to, prefix), (base, subnet_prefix)) = (cidr(route), cidr(subnet));
        Route { to, prefix, device: None }.overlaps(base, subnet_prefix)
    }

    #[test]
    fn a_route_overlaps_what_it_holds_and_what_holds_it() {
        let subnet = "10.244.77.0/24";
        assert!(overlap("10.244.0.0/16", subnet));
        assert!(overlap("10.244.77.9/32", subnet));
        assert!(overlap("10.244.77.0/24", subnet));
        assert!(!overlap("10.244.78.0/24", subnet));
        assert!(!overlap("10.245.0.0/16", subnet));
        assert!(!overlap("fd00::/8", subnet));
        assert!(overlap("fd00::/8", "fd00:1::/64"));
        assert!(!overlap("fd01::/16", "fd00:1::/64"));
    }
}
