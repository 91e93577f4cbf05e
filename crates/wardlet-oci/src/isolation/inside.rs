use kernel::{NetworkVisit, PrivateMountNamespace};

/// The namespaces that this process is in for the runtime. Dropping it returns the process to those that it came from.
#[derive(Debug)]
pub struct Inside {
    /// Left first: a thread returns to its network namespace by a descriptor, in whatever mount namespace it is.
    network: Option<NetworkVisit>,
    mounts: PrivateMountNamespace,
}

impl Inside {
    pub(super) fn new(mounts: PrivateMountNamespace, network: Option<NetworkVisit>) -> Self {
        Self { network, mounts }
    }

    /// Returns the process to the namespaces that it came from.
    pub fn leave(self) -> super::Result<()> {
        let network = self.network.map_or(Ok(()), NetworkVisit::leave);
        self.mounts.leave()?;
        Ok(network?)
    }
}
