//! Finds the process of the host that has a port, to name it in a refusal.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use procfs::Proc;

use crate::pod::{HostPort, Protocol};

/// The most descriptors that are read to find the process of a socket: users of the host can have millions.
const MOST_DESCRIPTORS: usize = 200_000;
/// The most sockets that are read.
const MOST_SOCKETS: usize = 1_000_000;
/// The state of a listening TCP socket in /proc/net/tcp.
const LISTEN: u8 = 0x0a;

/// The socket of the host that has a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// The address that it is bound to.
    pub address: SocketAddr,
    /// The process that has it open, if one could be found.
    pub process: Option<Process>,
}

/// A process of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its ID in the PID namespace of this process.
    pub pid: u32,
    /// The name of its program, without control characters.
    pub program: String,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(Process { pid, program }) => write!(f, "{program} (pid {pid}) at {}", self.address),
            None => write!(f, "a socket at {} whose process was not found", self.address),
        }
    }
}

/// One line of /proc/net/tcp and its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    local: SocketAddr,
    state: u8,
    inode: u64,
}

/// The socket that has this port in the network namespace of the calling thread. `None` if the kernel lists none: a
/// TCP socket that is bound and does not listen is in no list.
pub(super) fn of(port: HostPort) -> Option<PortHolder> {
    let tables: &[&str] = match port.protocol {
        Protocol::Tcp => &["tcp", "tcp6"],
        Protocol::Udp => &["udp", "udp6"],
        Protocol::Sctp => &[],
    };
    let all = tables.iter().flat_map(|table| entries(table)).filter(|entry| meets(port, entry.local));
    // A listener before the connections that it has accepted.
    let found = all.min_by_key(|entry| (entry.state != LISTEN, entry.local.is_ipv6()))?;
    Some(PortHolder { address: found.local, process: process(found.inode) })
}

fn meets(port: HostPort, local: SocketAddr) -> bool {
    let ip = local.ip().to_canonical();
    let overlaps = port.only_at().is_none_or(|only| ip == only || ip.is_unspecified());
    local.port() == port.host_port && overlaps && (ip.is_ipv4() || ip.is_unspecified())
}

fn entries(table: &str) -> Vec<Entry> {
    let Ok(file) = File::open(Path::new("/proc/thread-self/net").join(table)) else { return Vec::new() };
    let lines = BufReader::new(file).lines().skip(1).take(MOST_SOCKETS).map_while(Result::ok);
    lines.filter_map(|line| parsed(&line)).collect()
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`
fn parsed(line: &str) -> Option<Entry> {
    let mut words = line.split_whitespace();
    let local = address(words.nth(1)?)?;
    let state = u8::from_str_radix(words.nth(1)?, 16).ok()?;
    let inode = words.nth(5)?.parse().ok()?;
    Some(Entry { local, state, inode })
}

/// `0100007F:0016`: the address as 32-bit numbers in host byte order, the port in network byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let part = |from: usize| {
        let number = u32::from_str_radix(ip.get(from..from + 8)?, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(part(0)?)),
        32 => {
            let parts = [part(0)?, part(8)?, part(16)?, part(24)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(parts).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The first process that has this socket open.
fn process(inode: u64) -> Option<Process> {
    let wanted = format!("socket:[{inode}]");
    let mut left = MOST_DESCRIPTORS;
    // A process that has ended meanwhile has no descriptors, and one that may not be opened shows none.
    for task in Proc::own().ok()?.processes().ok()?.flatten() {
        for descriptor in task.descriptors().unwrap_or_default() {
            left = left.checked_sub(1)?;
            if task
                .link(&format!("fd/{descriptor}"))
                .is_ok_and(|target| target.as_os_str() == wanted.as_str())
            {
                return Some(Process { pid: task.id(), program: task.name().unwrap_or_default() });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let v4 =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 0 100";
        let local = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(parsed(v4), Some(Entry { local, state: LISTEN, inode: 4711 }));
        let v6 = "1: 0000000000000000FFFF00000100007F:0016 00000000000000000000000000000000:0000 01 0:0 0:0 0 0 0 5 1";
        let local = "[::ffff:127.0.0.1]:22".parse().unwrap();
        assert_eq!(parsed(v6), Some(Entry { local, state: 1, inode: 5 }));
        for odd in ["", "0: xyz 0 0", "0: 0100:1 0 0A 0 0 0 0 0 1", "0: 0100007F:1F90 00000000:0000 0A"] {
            assert_eq!(parsed(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn only_sockets_that_get_the_ports_packets_meet_it() {
        let port = |ip: Option<&str>| HostPort {
            protocol: Protocol::Tcp,
            host_ip: ip.map(|ip| ip.parse().unwrap()),
            host_port: 22,
            container_port: 22,
        };
        let meets = |ip, local: &str| meets(port(ip), local.parse().unwrap());
        assert!(
            meets(None, "127.0.0.1:22") && meets(None, "[::]:22") && meets(None, "[::ffff:192.0.2.1]:22")
        );
        assert!(meets(Some("192.0.2.1"), "0.0.0.0:22") && meets(Some("192.0.2.1"), "192.0.2.1:22"));
        assert!(!meets(Some("192.0.2.1"), "127.0.0.1:22") && !meets(None, "0.0.0.0:23"));
        assert!(!meets(None, "[2001:db8::1]:22"));
    }

    #[test]
    fn a_listener_is_found_with_its_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let host_port = address.port();
        let found =
            of(HostPort { protocol: Protocol::Tcp, host_ip: None, host_port, container_port: 1 }).unwrap();
        assert_eq!(found.address, address);
        assert_eq!(found.process.unwrap().pid, std::process::id());
    }
}
