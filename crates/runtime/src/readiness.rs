use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// A Unix socket of packets that can be waited for.
#[derive(Debug)]
pub(crate) struct Readiness(UnixDatagram);

impl Readiness {
    /// Nothing is read or written through the type that is used for it here: it only knows how to wait.
    pub(crate) fn of(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Waits until data has arrived since the last wait. The caller must have read all data before.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        self.0.readable().await?;
        // Clear readiness: the caller reads what has arrived until now.
        let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        match self.0.try_io(Interest::READABLE, forget) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_packet_wakes_whoever_has_read_those_before() {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let ready = Readiness::of(ours.try_clone().unwrap().into()).unwrap();
        for round in 0..3 {
            theirs.send(&[round]).unwrap();
            let mut byte = [9];
            while ours.recv(&mut byte).is_err() {
                ready.wait().await.unwrap();
            }
            assert_eq!(byte, [round]);
        }
    }
}
