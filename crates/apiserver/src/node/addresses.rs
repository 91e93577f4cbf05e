//! The internal addresses of this node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _, UdpSocket};

/// Why a node has no usable address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An address that no node may have.
    #[error("node-ip {0}: a loopback, multicast, link-local or unspecified address cannot be a node's")]
    Unusable(IpAddr),
    /// No interface has the address.
    #[error("node-ip {0}: no network interface of this machine has this address")]
    NotLocal(IpAddr),
    /// More than one address of a family, or more than two.
    #[error("node-ip: {0} addresses; at most one IPv4 and one IPv6 address can be given")]
    TooMany(usize),
    /// None was given and none found.
    #[error("no address of this machine was found for node {0}")]
    None(String),
}

impl AddressError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "give --node-ip an address that `ip address` shows, one for each family"
    }
}

/// Finds the addresses of the node `name`. Those that the operator gave (`node_ips`) are checked and taken; a single
/// `0.0.0.0` or `::` only prefers a family. Otherwise it is the name itself if it is an address, else what DNS or
/// `/etc/hosts` has for the name, else the source address of the default route.
///
/// It may wait for DNS: call it where blocking is allowed.
///
/// # Errors
/// If an address cannot be a node's, or none is found.
pub fn addresses(name: &str, node_ips: &[IpAddr]) -> Result<Vec<IpAddr>, AddressError> {
    let prefers_v6 = match node_ips {
        [] => false,
        [one] if one.is_unspecified() => one.is_ipv6(),
        given => return checked(given),
    };
    if let Ok(address) = name.parse::<IpAddr>() {
        return checked(&[address]);
    }
    let resolved = (name, 0).to_socket_addrs().into_iter().flatten().map(|found| found.ip());
    let local: Vec<IpAddr> = resolved.filter(|ip| is_usable(*ip) && is_local(*ip)).collect();
    let preferred = local.iter().copied().find(|ip| ip.is_ipv6() == prefers_v6);
    let by_route = || source_address(prefers_v6).or_else(|| source_address(!prefers_v6));
    let found = preferred.or_else(|| local.first().copied()).or_else(by_route);
    found.map(|ip| vec![ip]).ok_or_else(|| AddressError::None(name.to_owned()))
}

fn checked(given: &[IpAddr]) -> Result<Vec<IpAddr>, AddressError> {
    let families = |v6| given.iter().filter(|ip| ip.is_ipv6() == v6).count();
    if families(true) > 1 || families(false) > 1 {
        return Err(AddressError::TooMany(given.len()));
    }
    for ip in given {
        if !is_usable(*ip) {
            return Err(AddressError::Unusable(*ip));
        }
        if !is_local(*ip) {
            return Err(AddressError::NotLocal(*ip));
        }
    }
    Ok(given.to_vec())
}

fn is_usable(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || link_local)
}

/// Only an address of an interface can be bound, unless the system allows to bind any.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// The source address of the default route. No packet is sent.
fn source_address(v6: bool) -> Option<IpAddr> {
    let (any, target): (IpAddr, IpAddr) = if v6 {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((target, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| is_usable(*ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_a_nodes_are_refused() {
        let refused = |text: &str| {
            let ips: Vec<IpAddr> = text.split(',').map(|ip| ip.parse().unwrap()).collect();
            addresses("a", &ips).unwrap_err()
        };
        for text in ["127.0.0.1", "::1", "224.0.0.1", "169.254.1.1", "fe80::1"] {
            assert!(matches!(refused(text), AddressError::Unusable(_)), "{text}");
        }
        assert!(matches!(refused("192.0.2.1"), AddressError::NotLocal(_)));
        assert_eq!(refused("192.0.2.1,192.0.2.2"), AddressError::TooMany(2));
    }
}
