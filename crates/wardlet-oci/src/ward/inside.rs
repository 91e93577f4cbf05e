use kernel::{NetworkVisit, PrivateMountNamespace};

/// The namespaces that this process is in for the runtime's sake, until dropped.
#[derive(Debug)]
pub struct Inside {
    /// Left first: a thread goes home from the network by a descriptor, in whatever mounts it is.
    network: Option<NetworkVisit>,
    mounts: PrivateMountNamespace,
}

impl Inside {
    pub(super) fn new(mounts: PrivateMountNamespace, network: Option<NetworkVisit>) -> Self {
        Self { network, mounts }
    }

    /// Takes the process back to where it came from.
    pub fn leave(self) -> super::Result<()> {
        let network = self.network.map_or(Ok(()), NetworkVisit::leave);
        self.mounts.leave()?;
        Ok(network?)
    }
}
