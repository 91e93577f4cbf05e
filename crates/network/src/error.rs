use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::pod::HostPort;
use crate::ports::PortHolder;
use crate::subnet::Subnets;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation of the network: the operation, its object and the cause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A filesystem operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        source: Arc<io::Error>,
    },
    /// A network namespace cannot be opened or entered.
    #[error("cannot {step} the network namespace {}: {errno}", path.display())]
    Namespace {
        /// The operation that failed.
        step: &'static str,
        /// Its path.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The kernel refused a netlink request.
    #[error("cannot {what}: {errno}{}", said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Netlink {
        /// The operation that failed, with its object.
        what: String,
        /// The kernel's error.
        errno: Errno,
        /// The message of its extended acknowledgement.
        said: Option<String>,
    },
    /// The kernel's netlink reply is malformed or incomplete.
    #[error("cannot {what}: the kernel's netlink reply is malformed")]
    Answer {
        /// The operation that failed, with its object.
        what: String,
    },
    /// A thread could not be spawned, or ended without a result.
    #[error("cannot run a thread for the network: {cause}")]
    Thread {
        /// The cause.
        cause: String,
    },
    /// Another process has locked the state.
    #[error("another process has locked the network's state in {}", path.display())]
    Locked {
        /// Its path.
        path: PathBuf,
    },
    /// An invalid sandbox ID.
    #[error("{id:?} is not a valid sandbox ID: it must have 13 to 64 hexadecimal digits")]
    Id {
        /// The value that was given.
        id: String,
    },
    /// An invalid name of a network device.
    #[error("{name:?} is not a valid name for a bridge: use 1 to 15 letters, digits, - and _")]
    DeviceName {
        /// The value that was given.
        name: String,
    },
    /// An invalid MTU.
    #[error("an MTU of {mtu} is not valid: it must be from 1280 to 65535")]
    Mtu {
        /// The value that was given.
        mtu: u32,
    },
    /// An invalid subnet for pods.
    #[error("{text:?} is not a valid subnet for pods: {why}")]
    Subnet {
        /// The value that was given.
        text: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// The cluster has not assigned subnets to this node, or has assigned some that cannot be used.
    #[error("Node.spec.podCIDRs {}", refused.as_ref().map_or("is empty".to_owned(), |why| format!("cannot be used: {why}")))]
    NoPodCidr {
        /// Why they cannot be used.
        refused: Option<String>,
    },
    /// The host uses addresses of the pods' subnet.
    #[error("the pods' subnet {subnets} overlaps {with}")]
    Overlap {
        /// The pods' subnets.
        subnets: Subnets,
        /// The host's route or address, with its device.
        with: String,
    },
    /// A device that is not a bridge has the bridge's name.
    #[error("{name} is not a bridge but a device of kind {kind}")]
    OtherDevice {
        /// The name.
        name: String,
        /// The kind of the device.
        kind: String,
    },
    /// The bridge belongs to another network of wardlet.
    #[error("the bridge {name} belongs to another network: {owner}")]
    OthersBridge {
        /// The name.
        name: String,
        /// The owner, from the device's alias.
        owner: String,
    },
    /// All addresses are leased.
    #[error("all {count} addresses for pods of {subnets} are in use")]
    Exhausted {
        /// The pods' subnets.
        subnets: Subnets,
        /// The number of addresses.
        count: usize,
    },
    /// A host port that another pod has.
    #[error("the host port {port} is taken by {holder}")]
    PortTaken {
        /// The port that was asked for.
        port: HostPort,
        /// The pod that has it, as namespace/name.
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
        /// The kernel's error.
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
    /// Host ports need nftables, which the kernel refuses.
    #[error("the host port {port} needs nftables, which the kernel refuses: {cause}")]
    NoFirewall {
        /// The port.
        port: HostPort,
        /// The kernel's error.
        cause: String,
    },
    /// A record cannot be read or parsed.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// There is no network configuration for CNI plugins.
    #[error("no CNI configuration in {}", dir.display())]
    NoCniConfiguration {
        /// Where it was searched for.
        dir: PathBuf,
    },
    /// A CNI configuration cannot be used.
    #[error("the CNI configuration {} cannot be used: {why}", path.display())]
    CniConfiguration {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// A CNI plugin is not installed.
    #[error("the CNI plugin {plugin:?} is in none of {}", dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", "))]
    NoCniPlugin {
        /// Its name.
        plugin: String,
        /// Where it was searched for.
        dirs: Vec<PathBuf>,
    },
    /// A CNI plugin failed.
    #[error("the CNI plugin {plugin} failed at {command}: {said}")]
    CniPlugin {
        /// Its name.
        plugin: String,
        /// The CNI command.
        command: &'static str,
        /// The plugin's error message, on one line.
        said: String,
    },
    /// A CNI plugin did not end in time.
    #[error("the CNI plugin {plugin} did not finish {command} within {} s and was killed", waited.as_secs())]
    CniTimeout {
        /// Its name.
        plugin: String,
        /// The CNI command.
        command: &'static str,
        /// How long the caller waited.
        waited: Duration,
    },
    /// An earlier CNI plugin of the sandbox still runs.
    #[error("an earlier CNI plugin of sandbox {sandbox} is still running after {} s", waited.as_secs())]
    CniBusy {
        /// The sandbox.
        sandbox: String,
        /// How long the caller waited.
        waited: Duration,
    },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Netlink { errno: Errno::PERM, .. } | Self::Namespace { errno: Errno::PERM, .. } => {
                "run as root: the network of pods is made with CAP_NET_ADMIN and CAP_SYS_ADMIN"
            }
            Self::NoPodCidr { .. } => {
                "let the controller manager allocate node CIDRs (--allocate-node-cidrs), or use CNI plugins (`wardlet agent --cni`)"
            }
            Self::Overlap { .. } => "give pods another subnet: --bridge-subnet",
            Self::OthersBridge { .. } => {
                "use another --state-dir, whose bridge has a name of its own, or name one with `wardlet cri --bridge-name`; \
                 if that network is gone for good, remove its bridge with `ip link delete`"
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
            Self::Locked { .. } => "run one runtime at a time, or give the other one its own --state-dir",
            Self::NoCniConfiguration { .. } => "put a .conflist there, or use --network bridge",
            Self::NoCniPlugin { .. } => "install it there; Debian has containernetworking-plugins",
            Self::Record { .. } => "remove the file if no pod of this node needs its address or ports",
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
            Cause::Untrusted { path, reason } => Self::Record { path, why: format!("it {reason}") },
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
