use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Namespace;
use crate::{Error, Result};

const OWN: &str = "/proc/thread-self/ns/net";

/// The calling thread in another network namespace, until dropped or left. Programs that it starts, or
/// becomes, are inside, and the settings in `/proc/sys/net` are that network's; other threads are not.
#[derive(Debug)]
pub struct NetworkVisit {
    home: OwnedFd,
    /// Only the thread that came in can leave.
    not_send: PhantomData<*const ()>,
}

impl NetworkVisit {
    /// Takes the calling thread into `namespace`; one of another kind is an error.
    pub fn to(namespace: &Namespace) -> Result<Self> {
        let home = rustix::fs::open(OWN, OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::Open { path: OWN.into(), errno })?;
        go(namespace.as_fd()).map_err(failed("join"))?;
        Ok(Self { home, not_send: PhantomData })
    }

    /// Takes the thread back to where it came from.
    pub fn leave(self) -> Result<()> {
        self.go_home()
    }

    fn go_home(&self) -> Result<()> {
        go(self.home.as_fd()).map_err(failed("return from"))
    }
}

impl Drop for NetworkVisit {
    /// An error here leaves the thread inside; `leave` reports it.
    fn drop(&mut self) {
        let _ = self.go_home();
    }
}

fn go(to: std::os::fd::BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    move_into_link_name_space(to, Some(LinkNameSpaceType::Network))
}

fn failed(step: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::NetworkVisit { step, errno }
}
