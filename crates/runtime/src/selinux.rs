//! SELinux labels of files, and which of the host's files may be given to a pod. `sandbox::label` has those of pods.

use std::path::{Component, Path};

use cri::SeLinuxOption;
use selinux::{HostDefaults, SelinuxOptions};
use types::Refusal;

use crate::error::Result;
use crate::records::SandboxRecord;

/// What is below these is the system's own.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];
/// Directories that many programs share. Those below them may belong to one.
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
    let cause = format!(
        "{} is a system directory: with a pod's label, no other process could use it",
        path.display()
    );
    Err(Refusal::new("selinux_relabel", cause)
        .with_hint("mount a directory of the pod's own, or do not relabel it"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
