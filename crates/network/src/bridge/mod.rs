//! The built-in network: a bridge on the host, and for each pod a veth pair with one end at the bridge and the other
//! as `eth0` in the pod.

mod choice;
mod device;
mod inside;
mod outside;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use self::device::Guard;
use crate::error::{Error, Result};
use crate::firewall::{Connection, Family, Firewall, Forward, Port};
use crate::lease::{Book, Record};
use crate::netlink::Socket;
use crate::netlink::route::{self, Link};
use crate::pod::{Addresses, Pod};
use crate::ports::Held;
use crate::subnet::Subnets;
use crate::thread::Netns;

pub(crate) use inside::{counters, loopback_up};

/// The bridge that the settings ask for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    /// `None` for free subnets.
    pub(crate) subnets: Option<Subnets>,
    pub(crate) mtu: Option<u32>,
}

/// The desired state of a bridge.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) subnets: Subnets,
    pub(crate) mtu: Option<u32>,
}

/// The bridge and the leases of its pods. All methods are called in the host's network namespace.
#[derive(Debug)]
pub(crate) struct Bridge {
    name: String,
    mtu: Option<u32>,
    book: Book,
    /// The sockets that keep host ports from processes of the host.
    held: Held,
    /// Held while rules are made from the leases, so that the last thread to make them has seen all leases. The value
    /// is the reason why there are no rules, if there are none.
    firewall: Mutex<Option<String>>,
    /// The same for the rules that keep pods from using each other's addresses.
    own: Mutex<Option<String>>,
    nft: Connection,
    /// The owner, as in the bridge's alias.
    owner: String,
}

impl Bridge {
    /// Creates the bridge and the firewall's rules, from whatever state. The texts say what was changed on the host.
    pub(crate) fn open(wanted: Wanted, dir: &Path) -> Result<(Self, Vec<String>)> {
        let (book, mut words) = Book::open(dir, wanted.subnets.unwrap_or(Subnets::DEFAULT))?;
        let owner = device::owner(dir);
        let plan = choice::plan(wanted, &book.records(), &owner)?;
        book.turn_to(plan.subnets);
        let bridge = Self {
            name: plan.name,
            mtu: plan.mtu,
            book,
            held: Held::default(),
            firewall: Mutex::new(None),
            own: Mutex::new(None),
            nft: Connection::default(),
            owner,
        };
        words.extend(bridge.restore()?);
        words.extend(bridge.hold_leased());
        Ok((bridge, words))
    }

    /// Holds the host ports of all pods after a restart. A pod keeps a port that a process of the host has bound while
    /// no server held it: the rules lead to the pod, and the texts name the process that gets no connections. The
    /// pod's other ports are held.
    fn hold_leased(&self) -> Vec<String> {
        let hold = |record: Record| {
            let errors = self.held.hold_each(&record.sandbox, &record.host_ports);
            let word =
                |error| format!("the pod {} keeps a host port that cannot be held: {error}", record.pod);
            errors.into_iter().map(word).collect::<Vec<_>>()
        };
        self.book.records().into_iter().flat_map(hold).collect()
    }

    fn restore(&self) -> Result<Vec<String>> {
        let mut socket = Socket::route()?;
        let records = self.book.records();
        device::refuse_others(&mut socket, &self.name, &self.owner)?;
        let mut words = device::ensure(&mut socket, &self.plan(), &records)?;
        device::own(&mut socket, &self.name, &self.owner)?;
        // Before any pod is attached.
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        *own = self.rules().install_own(&self.nft, &self.ports()).err().map(|error| error.to_string());
        if let Some(why) = &*own {
            words.push(format!("pods are not kept from taking each other's addresses: {why}"));
        }
        drop(own);
        words.extend(outside::tidy(&mut socket, &self.name, &records)?);
        let mut firewall = self.firewall.lock().unwrap_or_else(PoisonError::into_inner);
        *firewall = self.rules().install(&self.nft, &self.forwards()).err().map(|error| error.to_string());
        let guard = if firewall.is_none() { Guard::There } else { Guard::Missing };
        device::route_loopback(&self.name, guard)?;
        if let Some(why) = &*firewall {
            words.push(format!(
                "pods reach nothing outside that does not know their addresses, and host ports are refused: {why}"
            ));
        }
        Ok(words)
    }

    pub(crate) fn set_up(&self, pod: &Pod) -> Result<Addresses> {
        let netns = Netns::open(&pod.netns)?;
        self.check_firewall(pod)?;
        let leased = self.book.lease(pod)?;
        let held = self.held.hold(&pod.id, &pod.host_ports);
        let made = held.and_then(|()| self.watch()).and_then(|()| self.connect(pod, &leased.record, &netns));
        if made.is_err() && leased.is_new {
            // The caller has not got the address yet; if this fails, too, a later cleanup finds the lease.
            let _ = self.tear_down(&pod.id);
        }
        made.map(|()| Addresses { ips: leased.record.addresses })
    }

    fn connect(&self, pod: &Pod, record: &Record, netns: &Netns) -> Result<()> {
        let mut socket = Socket::route()?;
        let bridge = self.device(&mut socket)?;
        let end = outside::Outside { bridge: &bridge, pod, record };
        let made = end.ensure(&mut socket, netns)?;
        let inside = inside::Inside { record, peer: made.index };
        netns.run(|| inside.ensure())?;
        if pod.host_ports.is_empty() {
            return Ok(());
        }
        self.forward()?;
        let to = record.address().into_iter();
        let new: Vec<_> =
            to.flat_map(|to| pod.host_ports.iter().map(move |from| Forward { from: *from, to })).collect();
        Firewall::forget(None, &new)
    }

    pub(crate) fn tear_down(&self, sandbox: &str) -> Result<()> {
        route::remove_link(&mut Socket::route()?, &outside::name(sandbox))?;
        // Before the lease of the ports ends, so that another pod can hold them.
        self.held.release(sandbox);
        let Some(record) = self.book.close_ports(sandbox) else { return Ok(()) };
        if !record.host_ports.is_empty() {
            self.forward()?;
            Firewall::forget(record.address(), &[])?;
        }
        self.book.end(sandbox)?;
        self.watch()
    }

    /// Installs the addresses of each port, from the leases. A lease is written before its pod's port exists, and
    /// removed after it.
    fn watch(&self) -> Result<()> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_some() { Ok(()) } else { self.rules().watch(&self.nft, &self.ports()) }
    }

    fn ports(&self) -> Vec<Port> {
        let port = |record: Record| {
            let hardware = device::hardware(record.address()?);
            Some(Port { device: outside::name(&record.sandbox), hardware, addresses: record.addresses })
        };
        self.book.records().into_iter().filter_map(port).collect()
    }

    pub(crate) fn sandboxes(&self) -> Vec<String> {
        self.book.records().into_iter().map(|record| record.sandbox).collect()
    }

    /// Restores what other processes have removed.
    pub(crate) fn ready(&self) -> Result<()> {
        self.device(&mut Socket::route()?)?;
        let firewall = self.firewall.lock().unwrap_or_else(PoisonError::into_inner);
        if firewall.is_none() && !self.rules().is_installed(&self.nft, Family::V4)? {
            self.rules().install(&self.nft, &self.forwards())?;
        }
        drop(firewall);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        match &*own {
            None if self.rules().is_installed(&self.nft, Family::Bridge)? => {}
            None => self.rules().install_own(&self.nft, &self.ports())?,
            // A module may have been loaded since.
            Some(_) => {
                *own = self.rules().install_own(&self.nft, &self.ports()).err().map(|error| error.to_string())
            }
        }
        Ok(())
    }

    /// Why pods can use each other's addresses, if they can.
    pub(crate) fn unguarded(&self) -> Option<String> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn subnets(&self) -> Subnets {
        self.book.subnets()
    }

    /// Uses these subnets for new pods. Existing pods keep their addresses.
    pub(crate) fn turn_to(&self, wanted: Subnets) -> Result<Vec<String>> {
        if self.subnets() == wanted {
            return Ok(Vec::new());
        }
        let plan = Plan { subnets: wanted, ..self.plan() };
        device::check(&mut Socket::route()?, &plan, &self.book.records())?;
        self.book.turn_to(wanted);
        self.restore()
    }

    /// The bridge. If another process has removed it, it is created again with all of its ports.
    fn device(&self, socket: &mut Socket) -> Result<Link> {
        if let Some(found) = route::link(socket, &self.name)?.filter(|found| found.up) {
            return Ok(found);
        }
        self.restore()?;
        let gone = || Error::Answer { what: format!("find the bridge {} just made", self.name) };
        route::link(socket, &self.name)?.ok_or_else(gone)
    }

    fn check_firewall(&self, pod: &Pod) -> Result<()> {
        let Some(port) = pod.host_ports.first() else { return Ok(()) };
        let firewall = self.firewall.lock().unwrap_or_else(PoisonError::into_inner);
        match &*firewall {
            None => Ok(()),
            Some(cause) => Err(Error::NoFirewall { port: *port, cause: cause.clone() }),
        }
    }

    fn forward(&self) -> Result<()> {
        let firewall = self.firewall.lock().unwrap_or_else(PoisonError::into_inner);
        // Without rules there is nothing to remove, and nothing is added.
        if firewall.is_some() { Ok(()) } else { self.rules().forward(&self.nft, &self.forwards()) }
    }

    fn forwards(&self) -> Vec<Forward> {
        let forward = |(from, to): (_, Ipv4Addr)| Forward { from, to };
        self.book.ports().into_iter().map(forward).collect()
    }

    fn rules(&self) -> Firewall {
        Firewall { bridge: self.name.clone(), subnets: self.book.all_subnets() }
    }

    fn plan(&self) -> Plan {
        Plan { name: self.name.clone(), subnets: self.subnets(), mtu: self.mtu }
    }
}

/// Removes a pod from a bridge that is no longer used for new pods.
pub(crate) fn forget(book: &Book, sandbox: &str) -> Result<()> {
    route::remove_link(&mut Socket::route()?, &outside::name(sandbox))?;
    book.end(sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{HostPort, Protocol};

    /// No kernel without nftables is at hand: only the finding is pretended, not what follows from it.
    #[test]
    fn without_nftables_only_host_ports_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (book, _) = Book::open(dir.path(), Subnets::DEFAULT).unwrap();
        let firewall = Mutex::new(Some("Protocol not supported".to_owned()));
        let own = Mutex::new(Some("Protocol not supported".to_owned()));
        let owner = "wardlet here".to_owned();
        let (held, nft) = (Held::default(), Connection::default());
        let bridge = Bridge { name: "wardlet0".to_owned(), mtu: None, book, held, firewall, own, nft, owner };
        let mut pod = Pod {
            id: "0123456789abcdef".to_owned(),
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            uid: "uid".to_owned(),
            netns: "/proc/thread-self/ns/net".into(),
            host_ports: vec![],
            annotations: [].into(),
        };
        bridge.check_firewall(&pod).unwrap();
        let port = HostPort { protocol: Protocol::Tcp, host_ip: None, host_port: 8080, container_port: 80 };
        pod.host_ports.push(port);
        let error = bridge.set_up(&pod).unwrap_err();
        let words = "the host port tcp 8080 needs nftables, which the kernel refuses: Protocol not supported";
        assert_eq!(error.to_string(), words);
        assert!(error.hint().is_some());
        assert!(bridge.book.records().is_empty());
    }
}
