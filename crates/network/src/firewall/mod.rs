//! The pods' part of the host's firewall: one nftables table of our own for each family, named like the
//! bridge, and one for what goes through bridges. Every change is one batch that the kernel takes as a whole or not at all.

mod conntrack;
mod expression;
mod nft;
mod own;
mod ruleset;

use std::net::{IpAddr, Ipv4Addr};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::netlink::{Request, Socket};
use crate::pod::{HostPort, Protocol};
use crate::subnet::Subnets;

pub(crate) use nft::Family;

/// A port of the host and the pod that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) from: HostPort,
    pub(crate) to: Ipv4Addr,
}

/// A port of the bridge, and what whoever is behind it may call itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) device: String,
    pub(crate) hardware: [u8; 6],
    pub(crate) addresses: Vec<IpAddr>,
}

/// The rules for one bridge.
#[derive(Debug, Clone)]
pub(crate) struct Firewall {
    pub(crate) bridge: String,
    pub(crate) subnets: Vec<Subnets>,
}

impl Firewall {
    /// Makes all rules anew, whatever was there.
    pub(crate) fn install(&self, forwards: &[Forward]) -> Result<()> {
        let batch = ruleset::whole(self, forwards);
        change("make the firewall's rules", &batch)
    }

    /// Makes all rules about whose packets are whose anew, whatever was there.
    pub(crate) fn install_own(&self, ports: &[Port]) -> Result<()> {
        let batch = own::whole(self, ports);
        change("make the rules about pods' own addresses", &batch)
    }

    /// Makes these the ports that are watched, and no others.
    pub(crate) fn watch(&self, ports: &[Port]) -> Result<()> {
        let batch = own::holders(self, ports);
        match change("say whose addresses are whose", &batch) {
            // Somebody has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install_own(ports),
            other => other,
        }
    }

    /// Forgets where connections were led before: `gone` is a pod's address, `new` are ports just forwarded.
    pub(crate) fn forget(gone: Option<Ipv4Addr>, new: &[Forward]) -> Result<()> {
        if let Some(pod) = gone {
            conntrack::forget_pod(pod)?;
        }
        if new.iter().any(|forward| forward.from.protocol == Protocol::Udp) {
            conntrack::forget_unled(new)?;
        }
        Ok(())
    }

    /// Makes these the forwarded ports, and no others.
    pub(crate) fn forward(&self, forwards: &[Forward]) -> Result<()> {
        let batch = ruleset::ports(self, forwards);
        match change("forward the host's ports", &batch) {
            // Somebody has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install(forwards),
            other => other,
        }
    }

    /// Whether the rules of a family are there.
    pub(crate) fn is_installed(&self, family: Family) -> Result<bool> {
        let request = nft::get_table(family, &self.bridge);
        match converse(|socket| socket.call("look at the firewall's rules", request)) {
            Ok(_) => Ok(true),
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Has the kernel take a batch as a whole or not at all.
fn change(what: &str, batch: &[Request]) -> Result<()> {
    converse(|socket| socket.send(what, batch)).map(drop)
}

/// Talks with the kernel about the firewall, and leaves the end of it to somebody else: whoever closes such a socket, also
/// after a mere question, waits until all that anybody has deleted from the rules is let go of, which takes as long as
/// the slowest reader of rules on any core. The rules hold before that: nobody here has to wait.
fn converse<T>(talk: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
    let mut socket = Socket::netfilter()?;
    let outcome = talk(&mut socket);
    let _ = std::thread::Builder::new().name("firewall-close".to_owned()).spawn(move || drop(socket));
    outcome
}
