use std::os::fd::AsFd;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

/// Whether the peer of a connection has the same user as this process.
pub(crate) fn is_ours(socket: impl AsFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == geteuid())
}
