//! Connections of probes and hooks, to a host by its name or address.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// The most look-ups of names at a time. A look-up blocks a thread for as long as the resolver takes, also when the probe waits
/// no more; without a limit, probes of names whose servers do not answer take all threads that the pods of a node share.
const LOOKUPS: usize = 16;
static SLOTS: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS)));

/// Connects to the first address of the host that accepts.
///
/// # Errors
/// If the name has no address, or none of its addresses accepts.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return TcpStream::connect((address, port)).await;
    }
    let name = host.to_owned();
    let addresses = in_slot(&SLOTS, move || (name.as_str(), port).to_socket_addrs()).await??;
    let addresses: Vec<SocketAddr> = addresses.collect();
    TcpStream::connect(addresses.as_slice()).await
}

/// Runs this on a thread for blocking work when a slot is free. The slot is taken until the work has ended, also if the caller
/// waits no more.
async fn in_slot<T: Send + 'static>(
    slots: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let slot = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let run = move || {
        let done = work();
        drop(slot);
        done
    };
    tokio::task::spawn_blocking(run).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_name_is_looked_up_and_an_address_needs_none() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        connect("127.0.0.1", port).await.unwrap();
        connect("localhost", port).await.unwrap();
        assert!(connect("name.invalid", port).await.is_err());
    }

    /// Callers that wait no more do not free the threads of their look-ups: others must wait, and no thread more is taken.
    #[tokio::test]
    async fn lookups_that_nobody_waits_for_keep_their_slots() {
        let slots = Arc::new(Semaphore::new(2));
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        for _ in 0..5 {
            let ended = Arc::clone(&ended);
            let stuck = in_slot(&slots, move || ended.lock().unwrap().recv());
            assert!(tokio::time::timeout(Duration::from_millis(50), stuck).await.is_err());
        }
        assert_eq!(slots.available_permits(), 0);
        drop(end);
        in_slot(&slots, || ()).await.unwrap();
    }
}
