use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use kernel::{Namespace, NamespaceKind};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use streaming::Connection;

use super::namespaces::{Own, Sharing};
use crate::container::is_ready;
use crate::error::{Error, Result};
use crate::node::Node;

/// The target is on the same host: it accepts at once or not at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries bytes between a client and a port of the pod's loopback, both ways.
pub(crate) async fn forward(node: &Node, sandbox: &str, port: u16, mut connection: Connection) -> Result<()> {
    let sandbox = node.store.sandbox(sandbox)?;
    is_ready(&sandbox)?;
    let own = Own::of(&sandbox.record().config)?;
    let netns = (own.network == Sharing::Pod).then(|| sandbox.places.pin(NamespaceKind::Net));
    let failed =
        |cause: io::Error| Error::step(format!("reach port {port} of sandbox {}", sandbox.id), cause);
    let stream = inside(netns, port).await.map_err(failed)?;
    stream.set_nonblocking(true).map_err(failed)?;
    let mut stream = tokio::net::TcpStream::from_std(stream).map_err(failed)?;
    // If one side disconnects, the other sees the end of its stream.
    let _ = tokio::io::copy_bidirectional(&mut connection, &mut stream).await;
    Ok(())
}

/// A connection made inside: it stays in that namespace wherever it is used. The thread ends with it, for none
/// that is used again may be anywhere but on the host.
async fn inside(netns: Option<PathBuf>, port: u16) -> io::Result<TcpStream> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("port-forward".to_owned()).spawn(move || {
        let entered = netns.map_or(Ok(()), |path| {
            let namespace = Namespace::open(&path).map_err(io::Error::other)?;
            Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
        });
        // A client that has gone meanwhile wants no answer.
        let _ = tell.send(entered.and_then(|()| connect(port)));
    })?;
    told.await.map_err(io::Error::other)?
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let first = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE);
    first.or_else(|error| {
        let second = TcpStream::connect_timeout(&SocketAddr::from((Ipv6Addr::LOCALHOST, port)), PATIENCE);
        second.map_err(|_| error)
    })
}
