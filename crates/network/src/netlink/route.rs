//! Links, addresses and routes.

mod address;
mod link;
mod table;

pub(crate) use address::{Address, add_address, addresses, remove_address};
pub(crate) use link::{
    Bridge, Change, Link, Pair, add_bridge, add_pair, change, first_links, hairpin, link, links, remove_link,
};
pub(crate) use table::{add_default, routes};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_BRIDGE: u8 = 7;
const AF_INET6: u8 = 10;

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}
