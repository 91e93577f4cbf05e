//! The pods' part of the host's firewall: one nftables table for each IP family, named like the bridge, and one of the
//! bridge family. Every change is one transaction.

mod conntrack;
mod expression;
mod nft;
mod own;
mod ruleset;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

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

/// A connection to the nftables of the network namespace in which it is first used. It is kept: the kernel closes one only
/// after an RCU grace period, also after a mere query, and until then no other connection can change rules.
#[derive(Default)]
pub(crate) struct Connection(Mutex<Option<Socket>>);

impl Connection {
    /// Commits a batch: all of it or nothing.
    fn change(&self, what: &str, batch: &[Request]) -> Result<()> {
        self.with(|socket| socket.send(what, batch)).map(drop)
    }

    fn with<T>(&self, talk: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut socket = kept.take().map_or_else(Socket::netfilter, Ok)?;
        let outcome = talk(&mut socket);
        // After an error, replies may be left unread.
        if outcome.is_ok() {
            *kept = Some(socket)
        } else {
            close(socket)
        }
        outcome
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let kept = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        kept.into_iter().for_each(close);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Closes it in another thread. The rules are in force already, so that the caller need not wait.
fn close(socket: Socket) {
    let _ = std::thread::Builder::new().name("firewall-close".to_owned()).spawn(move || drop(socket));
}

impl Firewall {
    /// Replaces all rules.
    pub(crate) fn install(&self, nft: &Connection, forwards: &[Forward]) -> Result<()> {
        nft.change("make the firewall's rules", &ruleset::whole(self, forwards))
    }

    /// Replaces all rules on source addresses.
    pub(crate) fn install_own(&self, nft: &Connection, ports: &[Port]) -> Result<()> {
        nft.change("make the rules about pods' own addresses", &own::whole(self, ports))
    }

    /// Replaces the checked ports.
    pub(crate) fn watch(&self, nft: &Connection, ports: &[Port]) -> Result<()> {
        match nft.change("say whose addresses are whose", &own::holders(self, ports)) {
            // Another process has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install_own(nft, ports),
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
    pub(crate) fn forward(&self, nft: &Connection, forwards: &[Forward]) -> Result<()> {
        match nft.change("forward the host's ports", &ruleset::ports(self, forwards)) {
            // Another process has removed our rules.
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => self.install(nft, forwards),
            other => other,
        }
    }

    /// Whether the table of a family exists.
    pub(crate) fn is_installed(&self, nft: &Connection, family: Family) -> Result<bool> {
        let request = nft::get_table(family, &self.bridge);
        match nft.with(|socket| socket.call("look at the firewall's rules", request)) {
            Ok(_) => Ok(true),
            Err(Error::Netlink { errno: Errno::NOENT, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
