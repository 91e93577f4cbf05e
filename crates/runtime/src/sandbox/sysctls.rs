//! Kernel settings of a pod's own namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use kernel::{Namespace, NamespaceKind, Owner};
use rustix::process::Uid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_thread_res_uid};

use crate::error::{Error, Result};
use crate::layout::SandboxPlaces;

/// One setting, where it belongs.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    kind: NamespaceKind,
    file: PathBuf,
    value: String,
}

/// Writes the sysctls in the pod's namespaces, on a thread of its own. Fails if the pod does not have a namespace of its
/// own for one of them. `root` is the host ID of the pod's root: the kernel lets no other user write the IPC sysctls,
/// whatever its capabilities.
pub(crate) fn apply(places: &SandboxPlaces, given: &BTreeMap<String, String>, root: Owner) -> Result<()> {
    let settings: Vec<Setting> =
        given.iter().map(|(name, value)| setting(name, value)).collect::<Result<_>>()?;
    let inside = || settings.iter().try_for_each(|setting| write(places, setting, root));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .spawn_scoped(scope, inside)
            .map_err(|cause| Error::step("start a thread", cause))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The files of /proc/sys refer to the namespaces of the thread that opens them.
fn write(places: &SandboxPlaces, setting: &Setting, root: Owner) -> Result<()> {
    let failed = |cause: String| Error::Step {
        step: format!("set {} to {:?} in the pod", setting.file.display(), setting.value),
        cause,
        hint: None,
    };
    let namespace = Namespace::open(&places.pin(setting.kind))?;
    let (kind, uid) = match setting.kind {
        NamespaceKind::Net => (LinkNameSpaceType::Network, 0),
        _ => (LinkNameSpaceType::InterProcessCommunication, root.uid),
    };
    move_into_link_name_space(namespace.as_fd(), Some(kind)).map_err(|errno| failed(errno.to_string()))?;
    // Only of this thread.
    let become_effectively = |uid| set_thread_res_uid(None, Some(Uid::from_raw(uid)), None);
    become_effectively(uid).map_err(|errno| failed(errno.to_string()))?;
    let written = fs::write(&setting.file, &setting.value);
    // Back again for the next one, which has a namespace to enter.
    become_effectively(0).map_err(|errno| failed(errno.to_string()))?;
    written.map_err(|cause| failed(cause.to_string()))
}

fn setting(name: &str, value: &str) -> Result<Setting> {
    // With slashes a dot belongs to a name, as in that of an interface.
    let path = PathBuf::from(if name.contains('/') { name.to_owned() } else { name.replace('.', "/") });
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !path.components().all(plain) {
        return Err(Error::invalid(&format!("linux.sysctls[{name}]"), "it is no name of a setting"));
    }
    let kind = if path.starts_with("net") { NamespaceKind::Net } else { NamespaceKind::Ipc };
    Ok(Setting { kind, file: Path::new("/proc/sys").join(path), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_goes_to_the_namespace_it_belongs_to() {
        let found = |name: &str| setting(name, "1").map(|found| (found.kind, found.file)).unwrap();
        let file = |path: &str| Path::new("/proc/sys").join(path);
        assert_eq!(found("net.ipv4.ip_forward"), (NamespaceKind::Net, file("net/ipv4/ip_forward")));
        let dotted = "net/ipv4/conf/eth0.1/forwarding";
        assert_eq!(found(dotted), (NamespaceKind::Net, file(dotted)));
        assert_eq!(found("kernel.sem"), (NamespaceKind::Ipc, file("kernel/sem")));
    }

    #[test]
    fn no_name_leads_out_of_the_settings() {
        for name in ["net/../kernel/panic", "/proc/sys/net/x", "net/ipv4/../../../../etc/passwd"] {
            assert!(setting(name, "1").unwrap_err().to_string().contains(name), "{name}");
        }
    }
}
