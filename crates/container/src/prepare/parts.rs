use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::{DetachedMount, Kernel, UsernsFd};

use super::chown::At;
use super::rootfs::{self, Layers};
use super::{Cover, Stage, binds, cover, devices, make_dir, user_namespace};
use crate::container_spec::Bind;
use crate::error::Result;
use crate::spec::DeviceNumber;
use ids::IdMappings;

/// Room for what the caller keeps there beside the mount points, such as a large configuration.
const ROOMY: u64 = 64 << 20;

/// The arguments of [`Parts::begin`].
#[derive(Debug, Clone, Copy)]
pub struct Begin<'a> {
    /// The system calls.
    pub kernel: &'a dyn Kernel,
    /// The directory and mount namespace of the parts.
    pub stage: Stage<'a>,
    /// The container's ID mappings.
    pub ids: &'a IdMappings,
}

/// The parts of a container's files, created one by one, for a container whose configuration the caller has.
#[derive(Debug)]
pub struct Parts<'a> {
    kernel: &'a dyn Kernel,
    stage: Stage<'a>,
    ids: &'a IdMappings,
    users: Arc<UsernsFd>,
    devices: Option<PathBuf>,
    made: usize,
}

impl<'a> Parts<'a> {
    /// Mounts a tmpfs over the stage. Mounts are idmapped with the user namespace `users`, or with a new one.
    pub fn begin(of: Begin<'a>, users: Option<UsernsFd>) -> Result<Self> {
        let Begin { kernel, stage, ids } = of;
        let users = match users {
            Some(users) => Arc::new(users),
            None => user_namespace(kernel, ids)?,
        };
        cover(kernel, stage, Cover { size: ROOMY, label: None })?;
        Ok(Self { kernel, stage, ids, users, devices: None, made: 0 })
    }

    /// The user namespace that mounts are idmapped with.
    #[must_use]
    pub fn users(&self) -> &UsernsFd {
        &self.users
    }

    /// A new directory below the stage.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.stage.dir.join(name);
        make_dir(&dir)?;
        Ok(dir)
    }

    /// Mounts an overlay of an image's idmapped layers. The container's root owns the upper directory.
    pub fn overlay(&self, layers: Layers<'_>) -> Result<PathBuf> {
        let point = self.dir("rootfs")?;
        if let Some(top) = layers.lowers.first() {
            rootfs::give_to_root(layers.upper, Some(self.ids), top)?;
        }
        rootfs::seen_through(
            self.kernel,
            layers,
            Some(&*self.users),
            At { point: &point, stage: self.stage },
        )?;
        Ok(point)
    }

    /// A bind mount from a clone of its source; idmapped if `bind` has ID mappings.
    pub fn bind(&mut self, bind: &Bind, clone: DetachedMount) -> Result<PathBuf> {
        let point = self.next_point();
        let users = bind.ids.as_ref().map(|_| &*self.users);
        binds::attach(self.kernel, bind, binds::Cloned { mount: clone, users }, &point)?;
        Ok(point)
    }

    /// A device node, whose owner has the same IDs inside the container as `number` says.
    pub fn node(&mut self, number: DeviceNumber) -> Result<PathBuf> {
        let room = match &self.devices {
            Some(room) => room.clone(),
            None => self.devices.insert(devices::room(self.kernel, None, self.stage)?).clone(),
        };
        let point = self.numbered(&room);
        devices::node(&point, number, Some(self.ids))?;
        Ok(point)
    }

    fn next_point(&mut self) -> PathBuf {
        self.numbered(self.stage.dir)
    }

    fn numbered(&mut self, dir: &Path) -> PathBuf {
        self.made += 1;
        dir.join(self.made.to_string())
    }
}
