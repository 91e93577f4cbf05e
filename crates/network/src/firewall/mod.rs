//! The pods' part of the host's firewall: one nftables table for each IP family, named like the bridge, and one of the
//! bridge family. Every change is one transaction.

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

/// A port of the bridge, and the source addresses that the pod behind it may use.
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
    /// Replaces all rules.
    pub(crate) fn install(&self, forwards: &[Forward]) -> Result<()> {
        let batch = ruleset::whole(self, forwards);
        change("make the firewall's rules", &batch)
    }

    /// Replaces all rules on source addresses.
    pub(crate) fn install_own(&self, ports: &[Port]) -> Result<()> {
        let batch = own::whole(self, ports);
        change("make the rules about pods' own addresses", &batch)
    }

    /// Replaces the checked ports.
    pub(crate) fn watch(&self, ports: &[Port]) -> Result<()> {
        let batch = own::holders(self, ports);
        match change("say whose addresses are whose", &batch) {
            // Another process has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install_own(ports),
            other => other,
        }
    }

    /// Deletes conntrack entries: `gone` is a pod's address, `new` are ports just forwarded.
    pub(crate) fn forget(gone: Option<Ipv4Addr>, new: &[Forward]) -> Result<()> {
        if let Some(pod) = gone {
            conntrack::forget_pod(pod)?;
        }
        if new.iter().any(|forward| forward.from.protocol == Protocol::Udp) {
            conntrack::forget_unled(new)?;
        }
        Ok(())
    }

    /// Replaces the forwarded ports.
    pub(crate) fn forward(&self, forwards: &[Forward]) -> Result<()> {
        let batch = ruleset::ports(self, forwards);
        match change("forward the host's ports", &batch) {
            // Another process has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install(forwards),
            other => other,
        }
    }

    /// Whether the table of a family exists.
    pub(crate) fn is_installed(&self, family: Family) -> Result<bool> {
        let request = nft::get_table(family, &self.bridge);
        match converse(|socket| socket.call("look at the firewall's rules", request)) {
            Ok(_) => Ok(true),
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Commits a batch: all of it or nothing.
fn change(what: &str, batch: &[Request]) -> Result<()> {
    converse(|socket| socket.send(what, batch)).map(drop)
}

/// Runs a netlink transaction on nftables, and closes its socket in another thread. Closing an nftables socket, also
/// after a mere query, waits for an RCU grace period until all deleted rules are freed. The rules are in force before
/// that, so that the caller need not wait.
fn converse<T>(talk: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
    let mut socket = Socket::netfilter()?;
    let outcome = talk(&mut socket);
    let _ = std::thread::Builder::new().name("firewall-close".to_owned()).spawn(move || drop(socket));
    outcome
}
