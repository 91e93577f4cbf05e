//! To which user namespaces a namespace belongs.
//!
//! Every namespace keeps the user namespace that it was created in, and that one the user namespace around it, also
//! when no task and no descriptor refers to them any more.

use std::collections::HashMap;
use std::sync::Arc;

use super::own;
use super::pinned::Pin;
use super::vantage::INITIAL_USER_NAMESPACE;
use crate::host_root::HostRoot;

/// The host's own namespaces for messages, host names, processes, cgroups and clocks, in this order: fixed by the
/// kernel's ABI (`PROC_IPC_INIT_INO` and so on). They belong to the host's own user namespace.
const INITIAL: [u64; 5] = [0xEFFF_FFFF, 0xEFFF_FFFE, 0xEFFF_FFFC, 0xEFFF_FFFB, 0xEFFF_FFFA];

/// The user namespaces that namespaces belong to, each asked for once.
#[derive(Debug)]
pub(crate) struct Belonging {
    chains: HashMap<u64, Arc<[u64]>>,
}

impl Default for Belonging {
    fn default() -> Self {
        Self { chains: INITIAL.map(|inode| (inode, Arc::default())).into() }
    }
}

impl Belonging {
    /// The nearest user namespace that a namespace belongs to, if that was asked for and is not the host's.
    pub(crate) fn nearest(&self, inode: u64) -> Option<u64> {
        self.chains.get(&inode).and_then(|chain| chain.first().copied())
    }

    /// The user namespaces that the namespace of `pin` belongs to, from the nearest up, without the host's. Nothing if
    /// the pin no longer holds it, or holds it where nothing has to be known of it; the error says why the owner is
    /// unknown.
    pub(crate) fn of(&mut self, root: &HostRoot, pin: &Pin) -> Result<Arc<[u64]>, String> {
        if let Some(known) = self.chains.get(&pin.inode) {
            return Ok(known.clone());
        }
        match ask(root, pin) {
            Ok(chain) => {
                let chain: Arc<[u64]> = chain.into();
                self.chains.insert(pin.inode, chain.clone());
                Ok(chain)
            }
            Err(_) if pin.is_harmless() || !pin.still_holds(root) => Ok(Arc::default()),
            Err(cause) => Err(format!("{pin}: cannot find its owning user namespace: {cause}")),
        }
    }
}

/// The kernel allows user namespaces to be nested 32 deep; it tells of none outside of our sight.
fn ask(root: &HostRoot, pin: &Pin) -> Result<Vec<u64>, String> {
    let _looking = own::looking();
    let mut chain = Vec::new();
    let mut namespace = pin.found(root)?;
    while let Some(owner) = namespace.owner().map_err(|e| e.to_string())? {
        if owner.id().ino == INITIAL_USER_NAMESPACE {
            break;
        }
        chain.push(owner.id().ino);
        namespace = owner;
    }
    Ok(chain)
}
