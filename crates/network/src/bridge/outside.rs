use std::os::fd::AsFd;

use crate::error::{Error, Result};
use crate::lease::Record;
use crate::netlink::Socket;
use crate::netlink::route::{self, Change, Link, Pair};
use crate::pod::Pod;
use crate::thread::Netns;

use super::device::hardware;
use super::inside::DEVICE;

/// The prefix of the names of our veth pairs. A name has room for 13 digits of the sandbox's ID after it.
const PREFIX: &str = "wl";
const DIGITS: usize = 13;

/// The name of the host's end of a sandbox's veth pair.
pub(super) fn name(sandbox: &str) -> String {
    PREFIX.chars().chain(sandbox.chars().take(DIGITS)).collect()
}

/// A pod's veth pair, seen from the host.
pub(super) struct Outside<'a> {
    pub(super) bridge: &'a Link,
    pub(super) pod: &'a Pod,
    pub(super) record: &'a Record,
}

impl Outside<'_> {
    /// Creates the pair if it is missing, with one end at the bridge and the other in the pod's namespace.
    pub(super) fn ensure(&self, socket: &mut Socket, netns: &Netns) -> Result<Link> {
        let name = name(&self.pod.id);
        let found = match route::link(socket, &name)? {
            Some(found) if self.leads_to(&found, netns)? => found,
            // Its other end is in an earlier namespace of this pod.
            Some(_) => {
                route::remove_link(socket, &name)?;
                self.make(socket, &name, netns)?
            }
            None => self.make(socket, &name, netns)?,
        };
        let alias = format!("{} {}", self.record.pod, self.pod.id);
        let change =
            Change { up: true, mtu: None, master: Some(self.bridge.index), alias: Some(short(&alias)) };
        route::change(socket, &found, &change)?;
        route::hairpin(socket, &found)?;
        Ok(found)
    }

    fn leads_to(&self, link: &Link, netns: &Netns) -> Result<bool> {
        let inner = netns.run(|| route::link(&mut Socket::route()?, DEVICE))?;
        Ok(inner.is_some_and(|inner| Some(inner.index) == link.peer && inner.peer == Some(link.index)))
    }

    fn make(&self, socket: &mut Socket, name: &str, netns: &Netns) -> Result<Link> {
        let address = self.record.address();
        let pair = Pair {
            name,
            mtu: self.bridge.mtu,
            master: self.bridge.index,
            inside: DEVICE,
            inside_hardware: address.map(hardware).unwrap_or_default(),
            netns: netns.as_fd(),
        };
        route::add_pair(socket, &pair)?;
        let gone = || Error::Answer { what: format!("find {name} just made") };
        route::link(socket, name)?.ok_or_else(gone)
    }
}

/// Attaches pairs to a bridge that was created again, and removes pairs without a lease.
pub(super) fn tidy(socket: &mut Socket, bridge: &str, records: &[Record]) -> Result<Vec<String>> {
    let links = route::links(socket)?;
    let Some(index) = links.iter().find(|link| link.name == bridge).map(|link| link.index) else {
        return Ok(Vec::new());
    };
    let names: Vec<String> = records.iter().map(|record| name(&record.sandbox)).collect();
    let mut words = Vec::new();
    for link in links.iter().filter(|link| link.kind == "veth" && link.name.starts_with(PREFIX)) {
        if !names.contains(&link.name) {
            // Devices of other programs may have such names, but are not at our bridge.
            if link.master == Some(index) {
                route::remove_link(socket, &link.name)?;
                words.push(format!("{} at {bridge} was no pod's and is removed", link.name));
            }
        } else if link.master != Some(index) {
            route::change(socket, link, &Change { up: true, master: Some(index), ..Change::default() })?;
            route::hairpin(socket, link)?;
        }
    }
    Ok(words)
}

/// The kernel takes at most 255 bytes.
pub(super) fn short(alias: &str) -> &str {
    alias.get(..alias.floor_char_boundary(255)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_long_as_names_may_be() {
        let name = name("0123456789abcdef0123456789abcdef");
        assert_eq!((name.as_str(), name.len()), ("wl0123456789abc", 15));
    }
}
