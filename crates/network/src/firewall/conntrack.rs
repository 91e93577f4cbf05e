//! The kernel's connection tracking table. Rules are evaluated for the first packet of a connection only: a peer that
//! goes on sending from the same port reaches the earlier destination for as long as the entry exists.

use std::net::Ipv4Addr;

use rustix::io::Errno;

use super::{Connection, Forward};
use crate::error::{Error, Result};
use crate::netlink::{Attributes, More, Request, Socket, find, flags};
use crate::pod::Protocol;

const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const HEADER: [u8; 4] = [2, 0, 0, 0];

const ASKED: u16 = 1;
const ANSWERED: u16 = 2;
const ADDRESSES: u16 = 1;
const PORTS: u16 = 2;

/// The number of entries that are kept at once, and of rounds: the product is more than any kernel tracks.
const AT_ONCE: usize = 4096;
const ROUNDS: usize = 1024;

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Direction {
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    to_port: u16,
}

/// Deletes the entries of connections through host ports of this pod.
pub(super) fn forget_pod(pod: Ipv4Addr) -> Result<()> {
    forget(|asked, answered| answered.from == pod && asked.to != pod)
}

/// Deletes the entries of UDP flows to these ports from before they were forwarded.
pub(super) fn forget_unled(forwards: &[Forward]) -> Result<()> {
    let is_of = |forward: &Forward, asked: Direction| {
        forward.from.protocol == Protocol::Udp
            && (asked.protocol, asked.to_port) == (Protocol::Udp.number(), forward.from.host_port)
            && forward.from.only_at().is_none_or(|ip| ip == asked.to)
    };
    forget(|asked, answered| {
        let unchanged = (answered.from, answered.to) == (asked.to, asked.from);
        unchanged && forwards.iter().any(|forward| is_of(forward, asked))
    })
}

/// In rounds: any sender of packets adds entries, and memory is used only for those that are to be deleted.
fn forget(chosen: impl Fn(Direction, Direction) -> bool) -> Result<()> {
    for _ in 0..ROUNDS {
        let some = some(&chosen)?;
        Connection::default().with(|socket| some.iter().try_for_each(|tuple| forget_one(socket, tuple)))?;
        if some.len() < AT_ONCE {
            break;
        }
    }
    Ok(())
}

fn forget_one(socket: &mut Socket, tuple: &[u8]) -> Result<()> {
    let attributes = Attributes::new().bytes(ASKED | 0x8000, tuple);
    match socket.call("forget a connection", Request::new(DELETE, 0, &HEADER, &attributes)) {
        Err(Error::Netlink { errno: Errno::NOENT, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Some of the chosen entries.
fn some(chosen: impl Fn(Direction, Direction) -> bool) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let request = Request::new(GET, flags::DUMP, &HEADER, &Attributes::new());
    let hear = |body: &[u8]| {
        let is_chosen = read(body).is_some_and(|(asked, answered)| chosen(asked, answered));
        let tuple = body.get(4..).filter(|_| is_chosen).and_then(|attributes| find(attributes, ASKED));
        found.extend(tuple.map(<[u8]>::to_vec));
        if found.len() < AT_ONCE { More::Wanted } else { More::Enough }
    };
    let heard = Connection::default().with(|socket| socket.each("list the known connections", request, hear));
    match heard {
        // A kernel that cannot list them.
        Err(Error::Netlink { errno: Errno::OPNOTSUPP | Errno::INVAL, .. }) => Ok(Vec::new()),
        other => other.map(|()| found),
    }
}

fn read(body: &[u8]) -> Option<(Direction, Direction)> {
    let attributes = body.get(4..)?;
    Some((direction(find(attributes, ASKED)?)?, direction(find(attributes, ANSWERED)?)?))
}

fn direction(tuple: &[u8]) -> Option<Direction> {
    let (addresses, ports) = (find(tuple, ADDRESSES)?, find(tuple, PORTS)?);
    let address = |kind| Some(Ipv4Addr::from(*find(addresses, kind)?.first_chunk::<4>()?));
    Some(Direction {
        from: address(1)?,
        to: address(2)?,
        protocol: *find(ports, 1)?.first()?,
        to_port: u16::from_be_bytes(*find(ports, 3)?.first_chunk()?),
    })
}
