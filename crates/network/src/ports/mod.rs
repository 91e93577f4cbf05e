//! The ports of the host that lead to pods, held against every other process of the host.
//!
//! The firewall redirects a host port before the host's own sockets see the packet. For each host port this module
//! therefore binds a socket that never receives anything: if a process of the host has the port, bind(2) fails and
//! the pod is refused; while the pod has it, a process of the host cannot bind it and learns that from its own
//! bind(2). The kernel decides, so that there is no moment between a check and its use.
//!
//! The sockets live as long as this process. [`Held::hold_each`] binds them again after a restart.

mod holder;
mod socket;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::{Error, Result};
use crate::pod::HostPort;

pub use holder::{PortHolder, Process};

/// The sockets, by sandbox. Its methods are called in the host's network namespace.
#[derive(Debug, Default)]
pub(crate) struct Held {
    sandboxes: Mutex<Sandboxes>,
}

type Sandboxes = BTreeMap<String, Vec<Socket>>;

#[derive(Debug)]
struct Socket {
    port: HostPort,
    /// `None` for a protocol that the kernel has not loaded: no process of the host can use it.
    _fd: Option<OwnedFd>,
}

impl Held {
    /// Holds all of these ports for a sandbox; those that it holds already stay held. If one cannot be held, none
    /// of those that this call has bound is kept.
    pub(crate) fn hold(&self, sandbox: &str, ports: &[HostPort]) -> Result<()> {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = bind_missing(&sandboxes, sandbox, ports).collect::<Result<Vec<_>>>()?;
        keep(&mut sandboxes, sandbox, new);
        Ok(())
    }

    /// Holds each of these ports that can be held, and returns why the others cannot.
    pub(crate) fn hold_each(&self, sandbox: &str, ports: &[HostPort]) -> Vec<Error> {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut new, mut errors) = (Vec::new(), Vec::new());
        for bound in bind_missing(&sandboxes, sandbox, ports) {
            match bound {
                Ok(socket) => new.push(socket),
                Err(error) => errors.push(error),
            }
        }
        keep(&mut sandboxes, sandbox, new);
        errors
    }

    /// Gives all ports of a sandbox back to the host.
    pub(crate) fn release(&self, sandbox: &str) {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
    }
}

/// Binds those of a sandbox's ports that it does not hold yet, one with each step.
fn bind_missing(
    sandboxes: &Sandboxes,
    sandbox: &str,
    ports: &[HostPort],
) -> impl Iterator<Item = Result<Socket>> + use<> {
    let is_held = |port: &HostPort| {
        sandboxes.get(sandbox).is_some_and(|held| held.iter().any(|socket| socket.port == *port))
    };
    let missing: Vec<HostPort> = ports.iter().copied().filter(|port| !is_held(port)).collect();
    let (most, mut held) = (most(), sandboxes.values().map(Vec::len).sum::<usize>());
    missing.into_iter().map(move |port| {
        if held >= most {
            return Err(Error::TooManyPorts { port, most });
        }
        let socket = bind(port)?;
        held += 1;
        Ok(socket)
    })
}

fn keep(sandboxes: &mut Sandboxes, sandbox: &str, new: Vec<Socket>) {
    if !new.is_empty() {
        sandboxes.entry(sandbox.to_owned()).or_default().extend(new);
    }
}

/// Pods get at most half of the descriptors that this process may have: the rest of its work needs some too.
fn most() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(usize::MAX)
}

fn bind(port: HostPort) -> Result<Socket> {
    match socket::bind(port) {
        Ok(fd) => Ok(Socket { port, _fd: fd }),
        Err(Errno::ADDRINUSE) => Err(Error::PortInUse { port, holder: holder::of(port) }),
        Err(errno) => Err(Error::PortHold { port, errno }),
    }
}
