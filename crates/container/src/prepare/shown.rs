use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kernel::{
    Access, Attributes, Dir, Flags, Kernel, Kind, LastLink, Node, Propagation, Source, Submounts, Target,
    Unmount, UsernsFd, Within, unmount,
};

use super::binds::make_file;
use super::overlay::Plain;
use super::rootfs::lower;
use super::{Stage, make_dir, user_namespace};
use crate::container_spec::ImageFiles;
use crate::error::{Error, Result};

/// Files of an image, and the label that they are all to have.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) image: &'a ImageFiles,
    pub(super) label: Option<&'a str>,
}

/// What is shown of an image, attached at `point`, which is made for it. Owners are mapped layer by layer: an
/// overlay as a whole cannot be idmapped.
pub(super) fn attach(kernel: &dyn Kernel, shown: Shown<'_>, point: &Path, stage: Stage<'_>) -> Result<()> {
    let image = shown.image;
    let users = image.ids.as_ref().map(|ids| user_namespace(kernel, ids)).transpose()?;
    let whole = stage.dir.join("shown");
    make_dir_once(&whole)?;
    merge(kernel, shown, users.as_deref(), &whole)?;
    let attached = part(kernel, image, &whole, point);
    // What is attached at `point` stays; the way to the rest of the image, and to a part above it, goes.
    let taken_off = unmount(&whole, Unmount::Lazy);
    attached?;
    Ok(taken_off?)
}

/// Mounts all of the image at `whole`.
fn merge(kernel: &dyn Kernel, shown: Shown<'_>, users: Option<&UsernsFd>, whole: &Path) -> Result<()> {
    match (shown.image.layers.as_slice(), shown.label) {
        ([], _) => Err(Error::NothingToShow { target: shown.image.target.clone() }),
        // An overlay of one layer without changes is none to the kernel, and it takes one to give a label.
        ([layer], None) => Ok(kernel.attach(lower(kernel, layer, users)?, Target::Path(whole))?),
        (layers, label) => {
            let dir = whole.with_file_name("shown-layers");
            make_dir_once(&dir)?;
            let mut points = Vec::new();
            let merged = layers
                .iter()
                .try_for_each(|layer| {
                    let point = dir.join(points.len().to_string());
                    make_dir_once(&point)?;
                    kernel.attach(lower(kernel, layer, users)?, Target::Path(&point))?;
                    points.push(point);
                    Ok(())
                })
                .and_then(|()| over(&points, label, whole));
            // The overlay has layers of its own by now.
            let taken_off = points.iter().try_for_each(|point| unmount(point, Unmount::Lazy));
            merged?;
            Ok(taken_off?)
        }
    }
}

/// One overlay of all of them; with one layer alone, of that and of an empty directory.
fn over(points: &[PathBuf], label: Option<&str>, whole: &Path) -> Result<()> {
    let mut lowers = points.to_vec();
    if let [_] = points {
        let empty = whole.with_file_name("shown-empty");
        make_dir_once(&empty)?;
        lowers.push(empty);
    }
    Plain { lowers: &lowers, changes: None, label }.mount_at(whole)
}

fn part(kernel: &dyn Kernel, image: &ImageFiles, whole: &Path, point: &Path) -> Result<()> {
    let (node, kind) = find(image, whole)?;
    let mut clone = kernel.clone_mount(Source::Node(node.as_fd()), Submounts::Without)?;
    let attributes = Attributes {
        access: Access::ReadOnly,
        propagation: Some(Propagation::Private),
        flags: Flags::NODEV,
        ..Attributes::default()
    };
    kernel.set_attributes(&mut clone, &attributes)?;
    if kind == Kind::Directory {
        make_dir(point)?
    } else {
        make_file(point)?
    }
    Ok(kernel.attach(clone, Target::Path(point))?)
}

/// The image decides where its links lead: none is followed.
fn find(image: &ImageFiles, whole: &Path) -> Result<(Node, Kind)> {
    let (sub_path, target) = (image.sub_path.clone(), image.target.clone());
    let below: PathBuf = if sub_path.as_os_str().is_empty() { ".".into() } else { sub_path.clone() };
    let node = Dir::open(whole)?.node(&below, Within::NoLinks, LastLink::Follow);
    let node = node.and_then(|node| node.stat().map(|stat| (node, stat.kind)));
    match node {
        Ok((node, kind @ (Kind::File | Kind::Directory))) => Ok((node, kind)),
        Ok(_) => Err(Error::ImageNode { sub_path, target }),
        Err(cause) => Err(Error::ImagePath { sub_path, target, cause: Box::new(cause) }),
    }
}

fn make_dir_once(path: &Path) -> Result<()> {
    if path.is_dir() { Ok(()) } else { make_dir(path) }
}
