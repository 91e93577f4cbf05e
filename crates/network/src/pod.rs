use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A pod that is to have a network.
#[derive(Debug, Clone)]
pub struct Pod {
    /// The sandbox's ID: 13 to 64 hexadecimal digits, in small letters.
    pub id: String,
    /// The pod's name.
    pub name: String,
    /// The pod's Kubernetes namespace.
    pub namespace: String,
    /// The pod's UID.
    pub uid: String,
    /// The path of its network namespace: a pin or /proc/PID/ns/net.
    pub netns: PathBuf,
    /// Ports of the host that lead to it.
    pub host_ports: Vec<HostPort>,
    /// For CNI plugins that ask for them.
    pub annotations: BTreeMap<String, String>,
}

/// A port of the host that leads to a port of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostPort {
    /// The protocol.
    pub protocol: Protocol,
    /// The address of the host that it is bound to; `None` and 0.0.0.0: all.
    pub host_ip: Option<IpAddr>,
    /// The port of the host.
    pub host_port: u16,
    /// The port of the pod.
    pub container_port: u16,
}

impl HostPort {
    /// Whether the two ports conflict.
    pub(crate) fn collides(&self, other: &Self) -> bool {
        let same_place = match (self.only_at(), other.only_at()) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        same_place && (self.protocol, self.host_port) == (other.protocol, other.host_port)
    }

    /// The one address of the host that it is bound to.
    pub(crate) fn only_at(&self) -> Option<IpAddr> {
        self.host_ip.filter(|ip| !ip.is_unspecified())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.host_port;
        match self.only_at() {
            Some(IpAddr::V6(ip)) => write!(f, "{} [{ip}]:{port}", self.protocol),
            Some(ip) => write!(f, "{} {ip}:{port}", self.protocol),
            None => write!(f, "{} {port}", self.protocol),
        }
    }
}

/// The protocols that have ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Its number in IP headers.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// Its name, in small letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The result of a set-up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Its addresses, the first of them its main one; none where pods have only loopback.
    pub ips: Vec<IpAddr>,
}

/// What went through one interface of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its name inside.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that could not be received.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Packets to be sent that were dropped.
    pub tx_dropped: u64,
}

/// IDs become names of files and devices: nothing but hexadecimal digits is allowed.
pub(crate) fn check_id(id: &str) -> Result<()> {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if (13..=64).contains(&id.len()) && id.bytes().all(digit) {
        return Ok(());
    }
    Err(Error::Id { id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host_ip: Option<&str>, host_port: u16) -> HostPort {
        let host_ip = host_ip.map(|ip| ip.parse().unwrap());
        HostPort { protocol: Protocol::Tcp, host_ip, host_port, container_port: 80 }
    }

    #[test]
    fn a_port_of_all_addresses_collides_with_that_of_any() {
        assert!(port(None, 80).collides(&port(Some("10.0.0.1"), 80)));
        assert!(port(Some("0.0.0.0"), 80).collides(&port(Some("10.0.0.1"), 80)));
        assert!(port(Some("10.0.0.1"), 80).collides(&port(Some("10.0.0.1"), 80)));
        assert!(!port(Some("10.0.0.2"), 80).collides(&port(Some("10.0.0.1"), 80)));
        assert!(!port(None, 80).collides(&port(None, 81)));
        assert!(!port(None, 80).collides(&HostPort { protocol: Protocol::Udp, ..port(None, 80) }));
    }

    #[test]
    fn ids_that_could_lead_elsewhere_are_refused() {
        check_id("0123456789abcdef0123456789abcdef").unwrap();
        for id in ["", "0123456789ab", "../../etc/passwd", "0123456789ABCDEF", "0123456789abcde/"] {
            assert!(check_id(id).is_err(), "{id}");
        }
    }
}
