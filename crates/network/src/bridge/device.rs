use std::net::IpAddr;

use rustix::io::Errno;

use super::Plan;
use crate::error::{Error, Result};
use crate::lease::Record;
use crate::netlink::Socket;
use crate::netlink::route::{self, Address, Change, Link};
use crate::subnet::Subnets;
use crate::sysctl;

/// The prefix of the alias of our bridges.
const OURS: &str = "wardlet ";
/// The default MTU.
const USUAL_MTU: u32 = 1500;

/// Creates or changes the bridge to the plan. The returned texts say what else was changed.
pub(super) fn ensure(socket: &mut Socket, plan: &Plan, records: &[Record]) -> Result<Vec<String>> {
    check(socket, plan, records)?;
    let mtu = plan.mtu.map_or_else(|| usual_mtu(socket), Ok)?;
    let bridge = match route::link(socket, &plan.name)? {
        Some(found) => found,
        None => make(socket, plan, mtu)?,
    };
    if !bridge.up || bridge.mtu != mtu {
        route::change(socket, &bridge, &Change { up: true, mtu: Some(mtu), ..Change::default() })?;
    }
    let mut all = vec![plan.subnets];
    all.extend(records.iter().map(|record| record.subnets));
    give_addresses(socket, &bridge, &all)?;
    settings(plan)
}

/// Refuses subnets that the host uses, and a name that another device has.
pub(super) fn check(socket: &mut Socket, plan: &Plan, records: &[Record]) -> Result<()> {
    let found = route::link(socket, &plan.name)?;
    if let Some(other) = found.as_ref().filter(|found| found.kind != "bridge") {
        let kind = if other.kind.is_empty() { "its own" } else { &other.kind };
        return Err(Error::OtherDevice { name: plan.name.clone(), kind: kind.to_owned() });
    }
    let own = found.map(|found| found.index);
    let overlap = |with| Error::Overlap { subnets: plan.subnets, with };
    for route in route::routes(socket)? {
        let is_own = route.device.is_some() && route.device == own;
        if !is_own && !route.is_default() && nets(&plan.subnets).any(|(base, n)| route.overlaps(base, n)) {
            let device = device_name(socket, route.device)?;
            return Err(overlap(format!("the host's route to {route}{device}")));
        }
    }
    let gateways: Vec<_> = gateways(&plan.subnets).map(|gateway| gateway.ip).collect();
    let holds = |record: &&Record| record.addresses.iter().any(|address| gateways.contains(address));
    match records.iter().find(holds) {
        Some(record) => Err(overlap(format!("an address that the pod {} has from before", record.pod))),
        None => Ok(()),
    }
}

/// Refuses a bridge of another network: that network's addresses, pods and rules would be taken away.
pub(super) fn refuse_others(socket: &mut Socket, name: &str, owner: &str) -> Result<()> {
    match route::link(socket, name)?.and_then(|bridge| bridge.alias) {
        Some(found) if found.starts_with(OURS) && found != owner => {
            Err(Error::OthersBridge { name: name.to_owned(), owner: found })
        }
        _ => Ok(()),
    }
}

/// Writes at the bridge whose it is.
pub(super) fn own(socket: &mut Socket, name: &str, owner: &str) -> Result<()> {
    match route::link(socket, name)? {
        Some(bridge) if bridge.alias.as_deref() != Some(owner) => {
            route::change(socket, &bridge, &Change { up: true, alias: Some(owner), ..Change::default() })
        }
        _ => Ok(()),
    }
}

/// The alias that marks a bridge as the one of the network with its leases in this directory.
pub(super) fn owner(dir: &std::path::Path) -> String {
    let text = format!("{OURS}{}", dir.display());
    super::outside::short(&text).to_owned()
}

/// Its hardware address is its own and stays: a bridge without one takes on those of its ports in turn, and
/// pods would lose it with each pod that goes.
fn make(socket: &mut Socket, plan: &Plan, mtu: u32) -> Result<Link> {
    let hardware = hardware(plan.subnets.v4().gateway());
    match route::add_bridge(socket, &route::Bridge { name: &plan.name, mtu, hardware }) {
        Err(Error::Netlink { errno: Errno::EXIST, .. }) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    let gone = || Error::Answer { what: format!("find the bridge {} just made", plan.name) };
    route::link(socket, &plan.name)?.ok_or_else(gone)
}

/// A hardware address derived from an IPv4 address: the two always change hands together.
pub(super) fn hardware(address: std::net::Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x0a, 0x58, a, b, c, d]
}

fn give_addresses(socket: &mut Socket, bridge: &Link, subnets: &[Subnets]) -> Result<()> {
    let wanted: Vec<Address> = subnets.iter().flat_map(gateways).collect();
    for address in &wanted {
        route::add_address(socket, bridge.index, address)?;
    }
    for address in route::addresses(socket, bridge.index)? {
        let link_local = matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let known = wanted.iter().any(|one| (one.ip, one.prefix) == (address.ip, address.prefix));
        if !known && !link_local {
            route::remove_address(socket, bridge.index, &address)?;
        }
    }
    Ok(())
}

fn gateways(subnets: &Subnets) -> impl Iterator<Item = Address> {
    let v4 = subnets.v4();
    let first =
        Address { ip: v4.gateway().into(), prefix: v4.prefix(), broadcast: Some(v4.broadcast().into()) };
    let second =
        subnets.v6().map(|v6| Address { ip: v6.gateway().into(), prefix: v6.prefix(), broadcast: None });
    std::iter::once(first).chain(second)
}

fn nets(subnets: &Subnets) -> impl Iterator<Item = (IpAddr, u8)> {
    let v4 = subnets.v4();
    let v6 = subnets.v6().map(|v6| (IpAddr::V6(v6.base()), v6.prefix()));
    std::iter::once((IpAddr::V4(v4.base()), v4.prefix())).chain(v6)
}

/// The MTU of the device of the default route.
fn usual_mtu(socket: &mut Socket) -> Result<u32> {
    let way_out = route::routes(socket)?.into_iter().find(|route| route.is_default() && route.to.is_ipv4());
    let Some(index) = way_out.and_then(|route| route.device) else { return Ok(USUAL_MTU) };
    let device = route::links(socket)?.into_iter().find(|link| link.index == index && link.name != "lo");
    Ok(device.map_or(USUAL_MTU, |device| device.mtu.clamp(1280, 65_535)))
}

fn device_name(socket: &mut Socket, index: Option<u32>) -> Result<String> {
    let links = route::links(socket)?;
    let found = links.into_iter().find(|link| Some(link.index) == index);
    Ok(found.map(|link| format!(" by {}", link.name)).unwrap_or_default())
}

fn settings(plan: &Plan) -> Result<Vec<String>> {
    let name = &plan.name;
    let mut words = Vec::new();
    if sysctl::set("ipv4/ip_forward", "1")?.is_some() {
        words.push("net.ipv4.ip_forward is now 1, for pods to reach other hosts; it stays so".to_owned());
    }
    sysctl::set(&format!("ipv4/conf/{name}/forwarding"), "1")?;
    sysctl::set_if_there(&format!("ipv6/conf/{name}/accept_ra"), "0")?;
    if plan.subnets.v6().is_some() {
        words.extend(forward_v6(name)?);
    }
    Ok(words)
}

/// Lets 127.0.0.1 of the host reach pods (`route_localnet`). It would let pods reach 127.0.0.1 of the host, too, so
/// only where the firewall drops that.
pub(super) fn route_loopback(bridge: &str, guard: Guard) -> Result<()> {
    let value = match guard {
        Guard::There => "1",
        Guard::Missing => "0",
    };
    sysctl::set(&format!("ipv4/conf/{bridge}/route_localnet"), value).map(drop)
}

/// Whether the firewall's rules are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    There,
    Missing,
}

/// With forwarding on, the kernel ignores router advertisements unless `accept_ra` is 2: interfaces that accepted them
/// before still do.
fn forward_v6(bridge: &str) -> Result<Vec<String>> {
    if sysctl::get("ipv6/conf/all/forwarding")? == "1" {
        return Ok(Vec::new());
    }
    for device in sysctl::devices("ipv6")?.iter().filter(|device| *device != bridge) {
        let setting = format!("ipv6/conf/{device}/accept_ra");
        if sysctl::get(&setting)? == "1" {
            sysctl::set(&setting, "2")?;
        }
    }
    sysctl::set("ipv6/conf/all/forwarding", "1")?;
    let words = "net.ipv6.conf.all.forwarding is now 1, for pods to reach other hosts, and accept_ra 2 where it was 1; both stay so";
    Ok(vec![words.to_owned()])
}
