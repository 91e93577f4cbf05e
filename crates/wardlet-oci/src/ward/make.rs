use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bundle::ready::{Begin, Parts, Stage};
use kernel::{IdMaps, Kernel, Live, PrivateMountNamespace, UsernsFd};
use serde_json::Value;

use super::network::Network;
use super::{
    Error, Inside, Made, Order, Result, Role, devices, json, mounts, rootfs, spaces, stdio, sysctl, users,
};

/// Makes a container's files ready, and this process one in which its runtime can be run. If that fails, the
/// process is where it was.
pub fn make(order: &Order) -> Result<Made> {
    make_in(Room::enter(&order.stage)?, order, || Ok(()))
}

/// A mount namespace for a container's files, which this thread is in. Nothing of the container has to be known for it.
pub struct Room {
    namespace: PrivateMountNamespace,
}

impl Room {
    /// Takes this thread into a new one. Dropped, it takes it back.
    pub fn enter(stage: &Path) -> Result<Self> {
        make_dirs(&stage.join("rootfs"))?;
        Ok(Self { namespace: PrivateMountNamespace::enter()? })
    }
}

/// Makes the files of `order` in this room. What the container's IDs are written to on disk comes after `leased`.
pub fn make_in(room: Room, order: &Order, leased: impl FnOnce() -> Result<()>) -> Result<Made> {
    let network = Network::of(&order.spec)?;
    // Held before anything else: from here on it is this namespace, whatever becomes of its process.
    let pods = match &order.role {
        Role::Sandbox => None,
        Role::Inherit { init } => {
            Some(UsernsFd::of_process(*init, &IdMaps::new(&order.ids.uids, &order.ids.gids))?)
        }
    };
    let (namespace, kernel) = (room.namespace, Live::new());
    let made = Making { order, network: &network, kernel: &kernel }.all(&namespace, pods, leased)?;
    let process = order.spec.get("process").unwrap_or(&Value::Null);
    stdio::give(process, &order.ids)?;
    let visit = if users::joined_before(order, &network) { network.join()? } else { None };
    Ok(Made { spec: made, inside: Inside::new(namespace, visit) })
}

struct Making<'a> {
    order: &'a Order,
    network: &'a Network,
    kernel: &'a dyn Kernel,
}

impl Making<'_> {
    fn all(
        &self,
        namespace: &PrivateMountNamespace,
        pods: Option<UsernsFd>,
        leased: impl FnOnce() -> Result<()>,
    ) -> Result<Value> {
        let (order, kernel) = (self.order, self.kernel);
        let stage = Stage { dir: &order.stage, namespace };
        let joins = pods.is_some() && order.runtime.kind.joins_users();
        let mut parts = Parts::begin(Begin { kernel, stage, ids: &order.ids }, pods)?;
        let pin = if joins { Some(pin(&order.stage, parts.users())?) } else { None };
        let mut spec = order.spec.clone();
        let whole = json::top(&mut spec)?;
        mounts::Mounts { order, network: self.network, kernel, parts: &mut parts }.put(whole)?;
        devices::put(order, &mut parts, whole)?;
        // All so far goes with this process; what takes the container's changes stays on disk.
        leased()?;
        rootfs::put(order, kernel, &parts, whole)?;
        let linux = json::object(whole, "linux")?;
        spaces::put(order, pin.as_deref(), linux)?;
        users::put(order, pin.as_deref(), self.network, linux)?;
        sysctl::apply(order, self.network, linux)?;
        Ok(spec)
    }
}

/// The runtime finds it here, and not by the number of a process that may be another by then.
fn pin(stage: &Path, users: &UsernsFd) -> Result<PathBuf> {
    let path = stage.join("userns");
    users.pin(&path)?;
    Ok(path)
}

/// Makes a directory and what is missing above it, so that every user can pass, whatever our umask.
///
/// Below the stage there is an empty one at the path of each container's `/`, which lies over it in the
/// container's namespaces only: runc goes there, in the host's, before it runs one more process.
pub(super) fn make_dirs(dir: &Path) -> Result<()> {
    let mut missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    while let Some(dir) = missing.pop() {
        let failed = |cause| Error::File { what: "make", path: dir.to_owned(), cause };
        match fs::create_dir(dir) {
            Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(failed)?,
            // Somebody else was faster, and does the rest.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
    Ok(())
}
