use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::pod::HostPort;
use crate::ports::PortHolder;
use crate::subnet::Subnets;

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, on what, and what came of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// A network namespace cannot be had.
    #[error("cannot {step} the network namespace {}: {errno}", path.display())]
    Namespace {
        /// What was tried.
        step: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// The kernel refused a change of the network, or to tell of it.
    #[error("cannot {what}: {errno}{}", said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Netlink {
        /// What was tried, on what.
        what: String,
        /// What the kernel said.
        errno: Errno,
        /// What it said besides.
        said: Option<String>,
    },
    /// The kernel answered what cannot be understood.
    #[error("cannot {what}: the kernel's answer cannot be understood")]
    Answer {
        /// What was asked.
        what: String,
    },
    /// A thread could not be had, or did not come back.
    #[error("a thread for the network: {cause}")]
    Thread {
        /// Why.
        cause: String,
    },
    /// Another process has the state.
    #[error("another process has the network's state in {}", path.display())]
    Locked {
        /// Where it is.
        path: PathBuf,
    },
    /// No sandbox's ID.
    #[error("{id:?} is no sandbox's ID: 13 to 64 hexadecimal digits are")]
    Id {
        /// What was taken for it.
        id: String,
    },
    /// No device's name.
    #[error("{name:?} is no name for a bridge: 1 to 15 letters, digits, - and _ are")]
    DeviceName {
        /// What was given.
        name: String,
    },
    /// No MTU.
    #[error("an MTU of {mtu} cannot be: from 1280 to 65535")]
    Mtu {
        /// What was given.
        mtu: u32,
    },
    /// No subnets for pods.
    #[error("{text:?} is no subnet for pods: {why}")]
    Subnet {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host uses addresses of the pods' subnet.
    #[error("the pods' subnet {subnets} overlaps {with}")]
    Overlap {
        /// The pods'.
        subnets: Subnets,
        /// The host's route or address, with its device.
        with: String,
    },
    /// The bridge's name is that of something else.
    #[error("{name} is no bridge but a device of kind {kind}")]
    OtherDevice {
        /// The name.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The bridge is that of another network of ours.
    #[error("the bridge {name} belongs to another network: {owner}")]
    OthersBridge {
        /// The name.
        name: String,
        /// Whose it is, as it is written at it.
        owner: String,
    },
    /// All addresses are leased.
    #[error("all {count} addresses for pods of {subnets} are in use")]
    Exhausted {
        /// The pods' subnets.
        subnets: Subnets,
        /// How many there are.
        count: usize,
    },
    /// A host port that another pod has.
    #[error("the host port {port} is taken by {holder}")]
    PortTaken {
        /// The port that was asked for.
        port: HostPort,
        /// Who has it, as namespace/name.
        holder: String,
    },
    /// A host port that a process of the host has.
    #[error("the host port {port} is in use on the host by {}", words(holder.as_ref()))]
    PortInUse {
        /// The port that was asked for.
        port: HostPort,
        /// The socket that has it; `None` if the kernel does not list it.
        holder: Option<PortHolder>,
    },
    /// A host port cannot be held, for another reason than that it is in use.
    #[error("cannot hold the host port {port}: {errno}")]
    PortHold {
        /// The port.
        port: HostPort,
        /// What the kernel said.
        errno: Errno,
    },
    /// Pods have as many host ports as this process can hold.
    #[error("cannot hold the host port {port}: pods have {most} host ports already, as many as can be held")]
    TooManyPorts {
        /// The port.
        port: HostPort,
        /// The limit: half of the process's limit of open files.
        most: usize,
    },
    /// A host port of an IPv6 address.
    #[error("the host port {port}: {ip} is no IPv4 address")]
    PortAddress {
        /// The port.
        port: HostPort,
        /// Its host address.
        ip: IpAddr,
    },
    /// Host ports cannot be had.
    #[error("the host port {port} needs nftables, and the kernel said: {cause}")]
    NoFirewall {
        /// The port.
        port: HostPort,
        /// What the kernel said.
        cause: String,
    },
    /// A record cannot be understood.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no network configuration for CNI plugins.
    #[error("no CNI configuration in {}", dir.display())]
    NoCniConfiguration {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// A CNI configuration cannot be used.
    #[error("the CNI configuration {} cannot be used: {why}", path.display())]
    CniConfiguration {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A CNI plugin is not there.
    #[error("the CNI plugin {plugin:?} is in none of {}", dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", "))]
    NoCniPlugin {
        /// Its name.
        plugin: String,
        /// Where it was looked for.
        dirs: Vec<PathBuf>,
    },
    /// A CNI plugin failed.
    #[error("the CNI plugin {plugin} said to {command}: {said}")]
    CniPlugin {
        /// Its name.
        plugin: String,
        /// What it was to do.
        command: &'static str,
        /// Its own words, in one line.
        said: String,
    },
    /// A CNI plugin did not come to an end.
    #[error("the CNI plugin {plugin} did not finish {command} within {} s and was killed", waited.as_secs())]
    CniTimeout {
        /// Its name.
        plugin: String,
        /// What it was to do.
        command: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// A CNI plugin that was run for a sandbox before goes on and on.
    #[error("a CNI plugin that was run for {sandbox} before has not ended for {} s", waited.as_secs())]
    CniBusy {
        /// The sandbox.
        sandbox: String,
        /// How long was waited.
        waited: Duration,
    },
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Netlink { errno: Errno::PERM, .. } | Self::Namespace { errno: Errno::PERM, .. } => {
                "run as root: the network of pods is made with CAP_NET_ADMIN and CAP_SYS_ADMIN"
            }
            Self::Overlap { .. } => "give pods another subnet: --bridge-subnet",
            Self::OthersBridge { .. } => {
                "give each --state-dir a bridge and a subnet of its own; if that one is gone for good: ip link delete"
            }
            Self::OtherDevice { .. } => "give the bridge another name, or remove that device",
            Self::Exhausted { .. } => "give pods a larger subnet (--bridge-subnet), or remove pods",
            Self::PortTaken { .. } => "remove that pod, or ask for another hostPort or hostIP",
            Self::PortInUse { .. } => {
                "stop that process, or ask for another hostPort, or for a hostIP at which the port is free"
            }
            Self::TooManyPorts { .. } => {
                "remove pods with host ports, or raise the limit of open files (RLIMIT_NOFILE) of this process"
            }
            Self::PortAddress { .. } => "host ports are for IPv4: leave hostIP out, or name an IPv4 address",
            Self::NoFirewall { .. } => {
                "the kernel needs nf_tables with nat, masq, fib and ct; pods without hostPort run all the same"
            }
            Self::Locked { .. } => "one runtime at a time; or give the other one its own --state-dir",
            Self::NoCniConfiguration { .. } => "put a .conflist there, or use --network bridge",
            Self::NoCniPlugin { .. } => "install it there; Debian has containernetworking-plugins",
            Self::Record { .. } => "remove the file if no pod of this node needs what it is about",
            _ => return None,
        })
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source: Arc::new(source) }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::io(action, &path)(cause),
            Cause::Locked { path, .. } => Self::Locked { path },
            Cause::Damaged { path, cause } => Self::Record { path, why: cause.to_string() },
            Cause::Version { path, found, known } => Self::Record {
                path,
                why: format!("it is of version {found}; this wardlet knows version {known}"),
            },
            Cause::TooLarge { path, limit } => {
                Self::Record { path, why: format!("it has more than {limit} bytes") }
            }
        }
    }
}

/// A socket that is bound and does not listen is in no list of the kernel.
fn words(holder: Option<&PortHolder>) -> String {
    holder.map_or_else(|| "a process that has bound it without listening".to_owned(), ToString::to_string)
}
