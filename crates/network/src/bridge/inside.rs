//! The steps inside a pod's network namespace, by a thread that is in it.

use std::net::IpAddr;

use crate::error::{Error, Result};
use crate::lease::Record;
use crate::netlink::Socket;
use crate::netlink::route::{self, Address, Change};
use crate::pod::Interface;
use crate::sysctl;

/// A pod's device.
pub(super) const DEVICE: &str = "eth0";

/// A pod can create thousands of devices in its network namespace; reading all of them for each count would be too
/// slow. The devices that the pod was given come first.
const MOST_COUNTED: usize = 64;

/// A pod's end of its veth pair.
pub(super) struct Inside<'a> {
    pub(super) record: &'a Record,
    /// The index of the host's end.
    pub(super) peer: u32,
}

impl Inside<'_> {
    pub(super) fn ensure(&self) -> Result<()> {
        let socket = &mut Socket::route()?;
        let device = route::link(socket, DEVICE)?.filter(|device| device.peer == Some(self.peer));
        let gone = || Error::Answer { what: format!("find {DEVICE} in the pod") };
        let device = device.ok_or_else(gone)?;
        // Another pod could send router advertisements.
        sysctl::set_if_there(&format!("ipv6/conf/{DEVICE}/accept_ra"), "0")?;
        for address in self.addresses() {
            route::add_address(socket, device.index, &address)?;
        }
        route::change(socket, &device, &Change { up: true, ..Change::default() })?;
        let subnets = &self.record.subnets;
        route::add_default(socket, device.index, subnets.v4().gateway().into())?;
        match subnets.v6() {
            Some(v6) => route::add_default(socket, device.index, v6.gateway().into()),
            None => Ok(()),
        }
    }

    fn addresses(&self) -> impl Iterator<Item = Address> {
        let (v4, v6) = (self.record.subnets.v4(), self.record.subnets.v6());
        self.record.addresses.iter().map(move |ip| match ip {
            IpAddr::V4(_) => Address { ip: *ip, prefix: v4.prefix(), broadcast: Some(v4.broadcast().into()) },
            IpAddr::V6(_) => Address { ip: *ip, prefix: v6.map_or(128, |v6| v6.prefix()), broadcast: None },
        })
    }
}

/// Switches on loopback in the calling thread's namespace.
pub(crate) fn loopback_up() -> Result<()> {
    let socket = &mut Socket::route()?;
    let gone = || Error::Answer { what: "find the loopback device".to_owned() };
    let loopback = route::link(socket, "lo")?.ok_or_else(gone)?;
    if loopback.up {
        return Ok(());
    }
    route::change(socket, &loopback, &Change { up: true, ..Change::default() })
}

/// The counters of the devices of the calling thread's namespace, up to [`MOST_COUNTED`].
pub(crate) fn counters() -> Result<Vec<Interface>> {
    let links = route::first_links(Socket::route()?, MOST_COUNTED)?;
    let read = |link: route::Link| {
        let [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped] =
            link.counters;
        Interface {
            name: link.name,
            rx_bytes,
            tx_bytes,
            rx_packets,
            tx_packets,
            rx_errors,
            tx_errors,
            rx_dropped,
            tx_dropped,
        }
    };
    Ok(links.into_iter().map(read).collect())
}
