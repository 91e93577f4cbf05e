use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, ipproto, shutdown, socket_with, sockopt,
};

use crate::pod::{HostPort, Protocol};

/// Exists while the kernel has SCTP.
const SCTP: &str = "/proc/thread-self/net/sctp";

/// Binds a port so that no other process can, and so that nothing is accepted on it. `None` for SCTP on a kernel that
/// has not loaded it: a socket of ours would load the module, and without it no process has a port.
///
/// # Errors
/// `EADDRINUSE` if a socket of the host has the port.
pub(super) fn bind(port: HostPort) -> Result<Option<OwnedFd>, Errno> {
    let ip = port.only_at().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let address = SocketAddr::new(ip, port.host_port);
    match port.protocol {
        Protocol::Tcp => bind_tcp(address).map(Some),
        Protocol::Udp => bind_udp(address).map(Some),
        Protocol::Sctp if !Path::new(SCTP).exists() => Ok(None),
        Protocol::Sctp => bind_sctp(address).map(Some),
    }
}

/// Connections of a listener that has ended (TIME_WAIT) do not keep a port from being bound with `SO_REUSEADDR`, but
/// a second socket with that option could then be bound too. listen(2) makes the port exclusive, and without the
/// option it stays so. shutdown(2) ends the listening, not the binding: where the firewall's rules are lost, clients
/// are refused instead of being left waiting.
fn bind_tcp(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(address, SocketType::STREAM, ipproto::TCP)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 0)?;
    sockopt::set_socket_reuseaddr(&socket, false)?;
    shutdown(&socket, Shutdown::Both)?;
    Ok(socket)
}

/// Where the firewall's rules are lost, datagrams reach the socket; its buffer is as small as the kernel allows.
fn bind_udp(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(address, SocketType::DGRAM, ipproto::UDP)?;
    sockopt::set_socket_recv_buffer_size(&socket, 1)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn bind_sctp(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(address, SocketType::STREAM, ipproto::SCTP)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// A host port may name an address that the host will have later.
fn open(address: SocketAddr, kind: SocketType, protocol: rustix::net::Protocol) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol))?;
    sockopt::set_ip_freebind(&socket, true)?;
    Ok(socket)
}
