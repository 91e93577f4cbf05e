//! The names by which this node is known to its pods.

use std::net::UdpSocket;

const LOOPBACK: &str = "127.0.0.1";

/// The host name of the node, in lower case.
#[must_use]
pub fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_lowercase()
}

/// The source address of the node's default route, from a UDP socket; the loopback address without a route. No packet
/// is sent.
#[must_use]
pub fn host_ip() -> String {
    let socket = UdpSocket::bind(("0.0.0.0", 0));
    let found = socket.and_then(|s| s.connect(("192.0.2.1", 9)).and_then(|()| s.local_addr()));
    found.map_or_else(|_| LOOPBACK.to_owned(), |address| address.ip().to_string())
}
