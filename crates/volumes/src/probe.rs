//! Tries every volume's filesystem before anything is created for the pod.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use kernel::{Attributes, DetachedMount, Dir, Kernel, MountTable, Owner, Source as From, Submounts};
use plan::Owners;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::filesystems::Base;
use crate::ownership::outside::{Outside, outside};
use crate::pod::users::Users;
use crate::record::{MountMark, Numbers};
use crate::wanted::{Source, Wanted, WantedVolume};
use types::VolumeName;

/// The result for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) numbers: Numbers,
    pub(crate) notice: Option<Notice>,
}

/// Something to say about a volume that was set up or torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The volume.
    pub volume: VolumeName,
    /// What it is about.
    pub about: About,
    /// It in words.
    pub text: String,
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A difference from the plan that the pod does not see.
    Difference,
    /// What it took to give a tree to the pod, or to take it back.
    Cost,
    /// Files that belong to none of the pod's IDs.
    Owners,
}

/// The context of the trials.
pub(crate) struct Probe<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    /// The directory of volumes on disk.
    pub(crate) state: &'a Dir,
    pub(crate) users: &'a Users<'a>,
}

impl Probe<'_> {
    /// All volumes in order, or the errors of all that cannot be set up.
    pub(crate) fn all(&self, wanted: &Wanted) -> Result<Vec<Trial>> {
        let mut errors = vec![];
        let mut trials = vec![];
        for volume in &wanted.volumes {
            match self.one(volume) {
                Ok(trial) => trials.push(trial),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors).map(|()| trials)
    }

    fn one(&self, volume: &WantedVolume) -> Result<Trial> {
        let plain = |numbers| Trial { numbers, notice: None };
        if let Source::HostPath(path) = &volume.source {
            path.find(&volume.name)?;
        }
        let idmapped = match volume.owners {
            Owners::AsOnDisk => return Ok(plain(Numbers::Containers)),
            Owners::SharedBlocks | Owners::ChownedOnce | Owners::Translated => {
                return Ok(plain(Numbers::Hosts));
            }
            Owners::Idmapped => self.idmapped(volume),
        };
        match idmapped {
            Ok(()) => Ok(Trial { numbers: Numbers::Containers, notice: self.owners(volume)? }),
            // A volume that the node makes for the pod can have the pod's host IDs on disk as well.
            Err(Error::CannotIdmap { filesystem, cause, .. }) if Base::of(&volume.source).is_some() => {
                let text = format!(
                    "{filesystem} cannot be idmapped ({cause}): its files have the pod's host IDs on disk instead"
                );
                Ok(Trial {
                    numbers: Numbers::Hosts,
                    notice: Some(Notice { volume: volume.name.clone(), about: About::Difference, text }),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// What the owners of a hostPath's files come to inside the pod, where the map leaves some out.
    fn owners(&self, volume: &WantedVolume) -> Result<Option<Notice>> {
        let (Source::HostPath(path), Some(_)) = (&volume.source, self.users.idmap()) else { return Ok(None) };
        let Some(node) = path.find(&volume.name)? else { return Ok(None) };
        let Ok(tree) = Dir::at(node.as_fd(), &path.path) else { return Ok(None) };
        Ok(outside(&tree, self.users.namespace()).map(|found| {
            let Outside { files, looked_at, first, owner } = found;
            let text = format!(
                "{files} of the {looked_at} uppermost files belong to IDs that the pod's map leaves out, such as {} to \
                 {owner}: inside they belong to the overflow ID 65534, and the pod cannot change them",
                first.display()
            );
            Notice { volume: volume.name.clone(), about: About::Owners, text }
        }))
    }

    fn idmapped(&self, volume: &WantedVolume) -> Result<()> {
        if self.users.idmap().is_none() {
            return Ok(());
        }
        match (&volume.source, Base::of(&volume.source)) {
            (_, Some(base)) => match base.make(self.kernel, Owner::ROOT)? {
                Some(mount) => self.fresh(volume, mount),
                None => self.existing(volume, self.state.as_fd(), Submounts::Without),
            },
            (Source::HostPath(path), None) => match path.find(&volume.name)? {
                Some(node) => self.existing(volume, node.as_fd(), Submounts::Included),
                None => {
                    let (above, _) = path.nearest(&volume.name)?;
                    self.existing(volume, above.as_fd(), Submounts::Without)
                }
            },
            (Source::Image(image), _) if image.layers.is_empty() => {
                Err(Error::NoLayers { volume: volume.name.clone() })
            }
            (Source::Image(image), _) => image
                .layers
                .iter()
                .try_for_each(|layer| self.existing(volume, Dir::open(layer)?.as_fd(), Submounts::Without)),
            (Source::EmptyDir(_) | Source::Written(_), None) => Ok(()),
        }
    }

    fn fresh(&self, volume: &WantedVolume, mut mount: DetachedMount) -> Result<()> {
        let filesystem = match Base::of(&volume.source) {
            Some(Base::HugePages { .. }) => "hugetlbfs",
            _ => "tmpfs",
        };
        match self.idmap(&mut mount, Submounts::Without) {
            Err(error) => Err(refusal(error, &volume.name, filesystem.to_owned(), Path::new("memory"))),
            done => done,
        }
    }

    fn existing(&self, volume: &WantedVolume, node: BorrowedFd<'_>, submounts: Submounts) -> Result<()> {
        let mut mount = self.kernel.clone_mount(From::Node(node), submounts)?;
        match self.idmap(&mut mount, submounts) {
            Err(error) => {
                let (filesystem, at) = self.culprit(node)?;
                Err(refusal(error, &volume.name, filesystem, &at))
            }
            done => done,
        }
    }

    fn idmap(&self, mount: &mut DetachedMount, submounts: Submounts) -> Result<()> {
        let attributes = Attributes { idmap: self.users.idmap(), submounts, ..Attributes::default() };
        Ok(self.kernel.set_attributes(mount, &attributes)?)
    }

    /// The mount that a node is on, or else the first one below it, that cannot be idmapped by itself.
    fn culprit(&self, node: BorrowedFd<'_>) -> Result<(String, std::path::PathBuf)> {
        let table = MountTable::read()?;
        let own = MountMark::of(node, Path::new("the volume"))?;
        let own = table.iter().find(|entry| own.is(entry));
        let path = crate::pod::path_of(node);
        let cannot = |point: From<'_>| {
            let clone = self.kernel.clone_mount(point, Submounts::Without);
            clone.is_ok_and(|mut mount| self.idmap(&mut mount, Submounts::Without).is_err())
        };
        let found = if cannot(From::Node(node)) {
            own
        } else {
            table.below(&path).find(|entry| cannot(From::Path(&entry.point))).or(own)
        };
        Ok(found.map_or_else(
            || ("an unknown filesystem".to_owned(), path.clone()),
            |entry| (entry.filesystem.clone(), entry.point.clone()),
        ))
    }
}

/// The refusal to idmap, with the volume's name; any other error unchanged.
fn refusal(error: Error, volume: &VolumeName, filesystem: String, at: &Path) -> Error {
    let cause = match error {
        Error::Kernel(kernel::Error::Idmap { errno, .. }) => errno,
        Error::Kernel(kernel::Error::AlreadyIdmapped { .. }) => Errno::PERM,
        other => return other,
    };
    Error::CannotIdmap { volume: volume.clone(), filesystem, at: at.to_owned(), cause }
}
