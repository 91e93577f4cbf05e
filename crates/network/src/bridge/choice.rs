//! Which bridge and which subnets a network has that was given no subnets: several networks of one host, each with its
//! own state directory, must not get in each other's way.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr};

use fnv::FnvHasher;

use super::device;
use super::{Plan, Wanted};
use crate::error::{Error, Result};
use crate::lease::Record;
use crate::netlink::Socket;
use crate::netlink::route;
use crate::settings::BRIDGE;
use crate::subnet::Subnets;

/// The bridge and subnets for these settings. Given subnets are taken as they are. Otherwise the subnets are those that
/// the bridge has already, or the first of the default range that the host does not use.
///
/// # Errors
/// If the bridge is another network's, or the host uses all of the range.
pub(super) fn plan(wanted: Wanted, records: &[Record], owner: &str) -> Result<Plan> {
    let mut socket = Socket::route()?;
    let Wanted { name, subnets, mtu } = wanted;
    let may_be_kept = subnets.is_none() || !records.is_empty();
    let name = if may_be_kept { kept(&mut socket, name, owner)? } else { name };
    if let Some(subnets) = subnets {
        return Ok(Plan { name, subnets, mtu });
    }
    device::refuse_others(&mut socket, &name, owner)?;
    let mut refused = None;
    for subnets in present(&mut socket, &name)?.into_iter().chain(candidates(&name)) {
        let plan = Plan { name: name.clone(), subnets, mtu };
        match device::check(&mut socket, &plan, records) {
            Ok(()) => return Ok(plan),
            Err(error @ Error::Overlap { .. }) => refused = refused.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    // There are candidates, so that one was refused.
    Err(refused.unwrap_or(Error::Answer { what: format!("find a subnet for {name}") }))
}

/// The default bridge, if this network made it before bridges were named by state directory: its pods are attached to
/// it.
fn kept(socket: &mut Socket, name: String, owner: &str) -> Result<String> {
    if route::link(socket, &name)?.is_some() {
        return Ok(name);
    }
    let is_own = route::link(socket, BRIDGE)?.is_some_and(|found| found.alias.as_deref() == Some(owner));
    Ok(if is_own { BRIDGE.to_owned() } else { name })
}

/// The subnets of the default range that the bridge has an address of.
fn present(socket: &mut Socket, name: &str) -> Result<Vec<Subnets>> {
    let Some(bridge) = route::link(socket, name)? else { return Ok(Vec::new()) };
    let found = route::addresses(socket, bridge.index)?;
    let third = found.iter().filter_map(|address| match (address.ip, address.prefix) {
        (IpAddr::V4(ip), 24) => Some(ip.octets()),
        _ => None,
    });
    let [first, second, ..] = Subnets::DEFAULT.v4().base().octets();
    let ours = third.filter(|octets| octets.first_chunk() == Some(&[first, second]));
    Ok(ours.filter_map(|[_, _, number, _]| numbered(number)).collect())
}

/// The default subnet first for the default bridge; others begin where their name tells, so that two that are made at
/// once do not choose the same.
fn candidates(name: &str) -> impl Iterator<Item = Subnets> + use<> {
    let mut hasher = FnvHasher::default();
    hasher.write(name.as_bytes());
    let [begin, ..] = hasher.finish().to_le_bytes();
    let default = (name == BRIDGE).then_some(Subnets::DEFAULT);
    default.into_iter().chain((0..=u8::MAX).filter_map(move |number| numbered(begin.wrapping_add(number))))
}

fn numbered(number: u8) -> Option<Subnets> {
    let [first, second, ..] = Subnets::DEFAULT.v4().base().octets();
    format!("{}/24", Ipv4Addr::new(first, second, number, 0)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_the_whole_range_and_begin_with_the_default_for_the_default_bridge() {
        let of = |name: &str| candidates(name).map(|subnets| subnets.to_string()).collect::<Vec<_>>();
        assert_eq!(of(BRIDGE).first().map(String::as_str), Some("10.244.77.0/24"));
        let (one, two) = (of("wardlet-0000001"), of("wardlet-0000002"));
        assert_ne!(one.first(), two.first());
        for each in [one, two] {
            assert_eq!(each.iter().collect::<std::collections::BTreeSet<_>>().len(), 256);
        }
    }
}
