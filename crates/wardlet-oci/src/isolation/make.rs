use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use container::prepare::{Begin, Parts, Stage};
use kernel::{IdMaps, Kernel, Live, PrivateMountNamespace, UsernsFd};
use serde_json::Value;

use super::network::Network;
use super::{
    Error, Inside, Made, Order, Result, Role, devices, json, mounts, rootfs, spaces, stdio, sysctl, users,
};

/// Prepares a container's files, and puts this process into the namespaces in which it then executes the runtime. After
/// an error the process is in the namespaces that it came from. The caller must hold the lease of the container's IDs,
/// on disk: the overlay's upper directory is chowned to them.
pub fn make(order: &Order) -> Result<Made> {
    make_dirs(&order.stage.join("rootfs"))?;
    let namespace = PrivateMountNamespace::enter()?;
    let network = Network::of(&order.spec)?;
    // Opened before anything else: from here on it is this namespace, even if its process ends.
    let pods = match &order.role {
        Role::Sandbox => None,
        Role::Inherit { init } => {
            Some(UsernsFd::of_process(*init, &IdMaps::new(&order.ids.uids, &order.ids.gids))?)
        }
    };
    let kernel = Live::new();
    let made = Making { order, network: &network, kernel: &kernel }.all(&namespace, pods)?;
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
    fn all(&self, namespace: &PrivateMountNamespace, pods: Option<UsernsFd>) -> Result<Value> {
        let (order, kernel) = (self.order, self.kernel);
        let stage = Stage { dir: &order.stage, namespace };
        let joins = pods.is_some() && order.runtime.kind.joins_users();
        let mut parts = Parts::begin(Begin { kernel, stage, ids: &order.ids }, pods)?;
        let pin = if joins { Some(pin(&order.stage, parts.users())?) } else { None };
        let mut spec = order.spec.clone();
        let whole = json::top(&mut spec)?;
        mounts::Mounts { order, network: self.network, kernel, parts: &mut parts }.put(whole)?;
        devices::put(order, &mut parts, whole)?;
        // All mounts so far end with this process. The upper directory stays on disk with its new owner.
        rootfs::put(order, kernel, &parts, whole)?;
        let linux = json::object(whole, "linux")?;
        spaces::put(order, pin.as_deref(), linux)?;
        users::put(order, pin.as_deref(), self.network, linux)?;
        sysctl::apply(order, self.network, linux)?;
        Ok(spec)
    }
}

/// Pins the user namespace at a path for the runtime. A path in `/proc` could be that of another process by then.
fn pin(stage: &Path, users: &UsernsFd) -> Result<PathBuf> {
    let path = stage.join("userns");
    users.pin(&path)?;
    Ok(path)
}

/// Creates a directory and its missing parents with mode 0755, so that every user can traverse them, whatever the
/// umask.
///
/// The staging directory has an empty directory at the path of the containers' root filesystem, which is mounted over
/// it in the private mount namespace only: runc enters that path in the host's mount namespace before `exec`.
pub(super) fn make_dirs(dir: &Path) -> Result<()> {
    let mut missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    while let Some(dir) = missing.pop() {
        let failed = |cause| Error::File { what: "create", path: dir.to_owned(), cause };
        match fs::create_dir(dir) {
            Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(failed)?,
            // Another process has just created it, and sets its mode.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
    Ok(())
}
