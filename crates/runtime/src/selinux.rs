//! The SELinux label of a pod, and what of the host's files may be given to one.

use std::path::{Component, Path};

use labels::{CategoryPair, HostDefaults, Label, Level, SelinuxOptions};
use wire::cri::{PodSandboxConfig, SeLinuxOption};

use crate::error::{Error, Result};
use crate::node::Node;
use crate::order::Refusal;
use crate::records::SandboxRecord;

const FIELD: &str = "linux.security_context.selinux_options";
/// What is below these is the system's own.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];
/// These are everybody's, though what is below them need not be.
const SHARED: [&str; 5] = ["/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp"];

/// Where the store of images has layers, and what becomes some.
const UNPACKED: [&str; 2] = ["layers", "work"];

/// What is asked for, part by part; what is empty is not asked for.
pub(crate) fn options(asked: &SeLinuxOption) -> SelinuxOptions {
    let part = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    SelinuxOptions {
        user: part(&asked.user),
        role: part(&asked.role),
        kind: part(&asked.r#type),
        level: part(&asked.level),
    }
}

/// The label of a sandbox's processes, where SELinux is on: what is asked for over what the host has for containers.
/// Without a level it gets a pair of categories that no other sandbox of this runtime has. They are its own for as
/// long as its record is there. A privileged one is not confined.
pub(crate) fn label_of(node: &Node, record: &SandboxRecord) -> Result<Option<Label>> {
    let security = security(&record.config);
    let (Some(host), false) = (&node.facts.selinux, security.privileged) else { return Ok(None) };
    let asked = security.selinux_options.map(|asked| options(&asked)).unwrap_or_default();
    let own = asked.level.is_none().then(|| own_level(node, record)).transpose()?;
    let label = host.process_label(&asked, own);
    Ok(Some(label.map_err(|error| Refusal::new(FIELD, error.to_string()))?))
}

fn security(config: &PodSandboxConfig) -> wire::cri::LinuxSandboxSecurityContext {
    config.linux.clone().unwrap_or_default().security_context.unwrap_or_default()
}

/// The reservation counts until the sandbox is in the book; from then on its record does.
fn own_level(node: &Node, record: &SandboxRecord) -> Result<Level> {
    let known: Vec<Level> = node.book.sandboxes().iter().filter_map(|sandbox| sandbox.level()).collect();
    let first = u32::from_str_radix(record.id.as_str().get(..7).unwrap_or_default(), 16).unwrap_or_default();
    levels_from(first)
        .filter(|level| !known.contains(level))
        .find(|level| node.book.reserve("level", &format!("level {level}"), &record.id).is_ok())
        .ok_or_else(|| Error::Step {
            step: "give the sandbox SELinux categories of its own".to_owned(),
            cause: "all pairs are taken".to_owned(),
            hint: None,
        })
}

/// All levels of two categories, beginning somewhere: what was used before is not the next that is used.
fn levels_from(first: u32) -> impl Iterator<Item = Level> {
    let count = CategoryPair::COUNT;
    let numbers = (0..count).map(move |number| (first % count + number) % count);
    numbers.filter_map(CategoryPair::nth).map(Level::of_pair)
}

/// The label of the files that a sandbox brings into its containers.
pub(crate) fn file_label(host: Option<&HostDefaults>, record: &SandboxRecord) -> Option<String> {
    let (host, label) = (host?, record.label.as_ref()?);
    Some(host.file_label_of(label).to_string())
}

/// Gives the layers of images the host's label of files that containers share and only read. Linux 6.1 looks at that
/// of a layer's own file when a program is run from it, whatever label the overlay has. What is unpacked later has it by
/// itself, from the directory that it is unpacked in.
pub(crate) fn label_layers(host: &HostDefaults, images: &Path) -> Result<()> {
    let label = host.read_only_file.to_string();
    // The top is labelled last, so that it says whether all is done.
    if label_at(images).as_deref() == Some(label.as_str()) {
        return Ok(());
    }
    for dir in UNPACKED.map(|name| images.join(name)).iter().filter(|dir| dir.exists()) {
        kernel::relabel(dir, &label)?;
    }
    kernel::relabel(images, &label)?;
    Ok(())
}

fn label_at(path: &Path) -> Option<String> {
    let mut bytes = vec![0; 4096];
    let length = rustix::fs::lgetxattr(path, "security.selinux", &mut bytes[..]).ok()?;
    let text = String::from_utf8(bytes.get(..length)?.to_vec()).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

/// Whether the host could do without the label that this has now.
pub(crate) fn may_be_relabelled(path: &Path) -> std::result::Result<(), Refusal> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let system = SYSTEM.iter().any(|system| path.starts_with(system));
    if parts > 1 && !system && !SHARED.iter().any(|shared| path == Path::new(shared)) {
        return Ok(());
    }
    let cause = format!("{} is the system's: with a pod's label, nobody else could use it", path.display());
    Err(Refusal::new("selinux_relabel", cause)
        .with_hint("mount a directory of the pod's own, or do not relabel it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_comes_once_wherever_one_begins() {
        let first: Vec<String> =
            levels_from(CategoryPair::COUNT - 1).take(3).map(|l| l.to_string()).collect();
        assert_eq!(first, ["s0:c1022,c1023", "s0:c0,c1", "s0:c0,c2"]);
        let far = levels_from(u32::MAX).next().unwrap();
        assert_eq!(levels_from(u32::MAX % CategoryPair::COUNT).next().unwrap(), far);
    }

    #[test]
    fn what_is_the_systems_is_never_given_to_a_pod() {
        for path in ["/", "/etc", "/etc/app", "/usr/share/x", "/var", "/var/lib", "/home", "/srv", "/sys/fs"]
        {
            assert_eq!(may_be_relabelled(Path::new(path)).unwrap_err().field, "selinux_relabel", "{path}");
        }
        for path in ["/var/lib/kubelet/pods/u/volumes/v", "/home/ana", "/srv/data", "/usrlocal/x"] {
            assert_eq!(may_be_relabelled(Path::new(path)), Ok(()), "{path}");
        }
    }
}
