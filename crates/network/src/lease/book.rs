use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pool::Pool;
use super::record::Record;
use super::store::{Found, Store};
use crate::error::{Error, Result};
use crate::pod::{HostPort, Pod};
use crate::subnet::Subnets;

/// All leases, in memory and on disk.
#[derive(Debug)]
pub(crate) struct Book {
    store: Store,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    subnets: Subnets,
    pool: Pool,
    /// By sandbox.
    leases: BTreeMap<String, Lease>,
    /// Addresses that stay out of use.
    damaged: Vec<Ipv4Addr>,
}

#[derive(Debug, Clone)]
struct Lease {
    record: Record,
    /// When a lease ends, the ports are released first, the address last.
    ports: Vec<HostPort>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not written yet.
    New,
    /// Written with another content.
    Changed,
    /// Written.
    Saved,
}

/// The result of a lease.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) record: Record,
    /// Whether the pod had no lease before.
    pub(crate) is_new: bool,
}

impl Book {
    /// Reads the leases; the texts name those that cannot be read.
    pub(crate) fn open(dir: &Path, subnets: Subnets) -> Result<(Self, Vec<String>)> {
        let store = Store::open(dir)?;
        let (mut leases, mut damaged, mut words) = (BTreeMap::new(), Vec::new(), Vec::new());
        for found in store.load()? {
            match found {
                Found::Whole(record) => {
                    let ports = record.host_ports.clone();
                    leases.insert(record.sandbox.clone(), Lease { record, ports, state: State::Saved });
                }
                Found::Damaged { address, error } => {
                    words.push(format!("{error}; {address} stays out of use"));
                    damaged.push(address);
                }
            }
        }
        let pool = Pool::new(0..0, None, |_| false);
        let mut pages = Pages { subnets, pool, leases, damaged };
        pages.turn_to(subnets, store.last());
        Ok((Self { store, pages: Mutex::new(pages) }, words))
    }

    /// Uses these subnets for new leases. Existing leases stay.
    pub(crate) fn turn_to(&self, subnets: Subnets) {
        self.lock().turn_to(subnets, self.store.last());
    }

    /// Leases an address and the ports to the pod, durably; or returns its existing lease.
    pub(crate) fn lease(&self, pod: &Pod) -> Result<Reserved> {
        let (reserved, state) = self.lock().reserve(pod)?;
        let saved = match state {
            State::New => self.store.add(&reserved.record),
            State::Changed => self.store.replace(&reserved.record),
            State::Saved => return Ok(reserved),
        };
        let mut pages = self.lock();
        if let Err(error) = saved {
            if state == State::New {
                pages.strike(&pod.id);
            }
            return Err(error);
        }
        if let Some(lease) = pages.leases.get_mut(&pod.id) {
            lease.state = State::Saved;
        }
        drop(pages);
        reserved.record.address().into_iter().for_each(|address| self.store.set_last(address));
        Ok(reserved)
    }

    /// Removes the ports of a sandbox, so that the rules can be made without them. Returns its lease, if any.
    pub(crate) fn close_ports(&self, sandbox: &str) -> Option<Record> {
        let mut pages = self.lock();
        let lease = pages.leases.get_mut(sandbox)?;
        lease.ports.clear();
        Some(lease.record.clone())
    }

    /// Ends a lease. The address is free only when the file is removed.
    pub(crate) fn end(&self, sandbox: &str) -> Result<()> {
        let address = self.lock().leases.get(sandbox).and_then(|lease| lease.record.address());
        if let Some(address) = address {
            self.store.remove(address)?;
        }
        self.lock().strike(sandbox);
        Ok(())
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().leases.values().map(|lease| lease.record.clone()).collect()
    }

    /// Every port that leads to a pod, with the pod's address.
    pub(crate) fn ports(&self) -> Vec<(HostPort, Ipv4Addr)> {
        let pages = self.lock();
        let of = |lease: &Lease| {
            let address = lease.record.address();
            let ports = lease.ports.clone();
            address
                .into_iter()
                .flat_map(move |address| ports.clone().into_iter().map(move |port| (port, address)))
        };
        pages.leases.values().flat_map(of).collect()
    }

    /// The subnets of new pods.
    pub(crate) fn subnets(&self) -> Subnets {
        self.lock().subnets
    }

    /// The same, and those of existing pods.
    pub(crate) fn all_subnets(&self) -> Vec<Subnets> {
        let pages = self.lock();
        let mut all = vec![pages.subnets];
        for lease in pages.leases.values() {
            if !all.contains(&lease.record.subnets) {
                all.push(lease.record.subnets);
            }
        }
        all
    }

    /// The state is consistent between any two methods, even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn turn_to(&mut self, subnets: Subnets, last: Option<Ipv4Addr>) {
        let v4 = subnets.v4();
        let leased = self.leases.values().flat_map(|lease| lease.record.addresses.iter().copied());
        let held: BTreeSet<IpAddr> = leased.chain(self.damaged.iter().map(|ip| IpAddr::V4(*ip))).collect();
        let last = last.and_then(|last| v4.number(last));
        let is_held = |number| subnets.of_pod(number).iter().any(|address| held.contains(address));
        self.pool = Pool::new(v4.numbers(), last, is_held);
        self.subnets = subnets;
    }

    fn reserve(&mut self, pod: &Pod) -> Result<(Reserved, State)> {
        self.check_ports(pod)?;
        if let Some(lease) = self.leases.get_mut(&pod.id) {
            if lease.record.host_ports != pod.host_ports && lease.state == State::Saved {
                lease.state = State::Changed;
            }
            lease.record.host_ports.clone_from(&pod.host_ports);
            lease.ports.clone_from(&pod.host_ports);
            return Ok((Reserved { record: lease.record.clone(), is_new: false }, lease.state));
        }
        let exhausted =
            || Error::Exhausted { subnets: self.subnets, count: self.subnets.v4().numbers().len() };
        let number = self.pool.take().ok_or_else(exhausted)?;
        let record = Record::new(pod, self.subnets, number);
        let lease = Lease { record: record.clone(), ports: pod.host_ports.clone(), state: State::New };
        self.leases.insert(pod.id.clone(), lease);
        Ok((Reserved { record, is_new: true }, State::New))
    }

    fn check_ports(&self, pod: &Pod) -> Result<()> {
        for (place, port) in pod.host_ports.iter().enumerate() {
            if let Some(ip) = port.only_at().or(port.host_ip).filter(IpAddr::is_ipv6) {
                return Err(Error::PortAddress { port: *port, ip });
            }
            let others = self.leases.values().filter(|lease| lease.record.sandbox != pod.id);
            let holder = others
                .filter(|lease| lease.ports.iter().any(|taken| taken.collides(port)))
                .map(|lease| lease.record.pod.clone())
                .next();
            let own = pod.host_ports.iter().take(place).any(|other| other.collides(port));
            let holder = holder.or_else(|| own.then(|| "the same pod".to_owned()));
            if let Some(holder) = holder {
                return Err(Error::PortTaken { port: *port, holder });
            }
        }
        Ok(())
    }

    fn strike(&mut self, sandbox: &str) {
        let lease = self.leases.remove(sandbox);
        let address = lease.and_then(|lease| lease.record.address());
        if let Some(number) = address.and_then(|address| self.subnets.v4().number(address)) {
            self.pool.give_back(number);
        }
    }
}
