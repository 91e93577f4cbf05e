use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::OFlags;

use super::{Namespace, NamespaceKind};
use crate::userns::{PausedChild, Steps, UsernsFd, without_side_effects};
use crate::{Error, Result};

/// The kernel's limit of a host's name, in bytes.
const LONGEST_NAME: usize = 64;

/// New namespaces of these kinds, in their order. They belong to `userns`, whose root has power over
/// them, or to the caller's user namespace; the one for host names has this one.
///
/// The process that it takes to make them is gone on return, and costs the same whatever the size of this
/// one. Only kinds that can do without a process are made: network, IPC, UTS and cgroup.
pub fn make(
    userns: Option<&UsernsFd>,
    kinds: &[NamespaceKind],
    hostname: Option<&str>,
) -> Result<Vec<Namespace>> {
    let steps = Steps {
        charge: None,
        join: userns.map_or(-1, |userns| userns.as_fd().as_raw_fd()),
        unshare: flags(kinds)?,
        hostname: hostname.map(|name| name_for(name, kinds)).transpose()?,
    };
    without_side_effects(|| {
        let child = PausedChild::start_with(steps)?;
        let dir = child.proc_dir()?;
        let open = |kind: &NamespaceKind| {
            let file = dir.open(&format!("ns/{}", kind.file()), OFlags::RDONLY)?;
            Namespace::of(file.into())
        };
        kinds.iter().map(open).collect()
    })
}

fn flags(kinds: &[NamespaceKind]) -> Result<i32> {
    let lasts = [NamespaceKind::Net, NamespaceKind::Ipc, NamespaceKind::Uts, NamespaceKind::Cgroup];
    match kinds.iter().find(|kind| !lasts.contains(kind)) {
        None => Ok(kinds.iter().fold(0, |flags, kind| flags | kind.flag())),
        Some(kind) => Err(Error::NotSuchNamespaces {
            what: format!("a {kind} namespace without a process is of no use"),
        }),
    }
}

/// Without a UTS namespace of their own the name would become that of this host.
fn name_for(name: &str, kinds: &[NamespaceKind]) -> Result<Vec<u8>> {
    let refused = |what: String| Err(Error::NotSuchNamespaces { what });
    if !kinds.contains(&NamespaceKind::Uts) {
        return refused(format!("the host's name {name:?} takes a new UTS namespace"));
    }
    if name.len() > LONGEST_NAME || name.contains('\0') {
        return refused(format!("{name:?} cannot be a host's name: it has at most {LONGEST_NAME} bytes"));
    }
    Ok(name.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_set_where_it_would_be_this_hosts() {
        let error = make(None, &[NamespaceKind::Net], Some("pod")).unwrap_err();
        assert!(error.to_string().contains("takes a new UTS namespace"), "{error}");
    }

    #[test]
    fn kinds_that_need_a_process_are_refused() {
        for kind in [NamespaceKind::Pid, NamespaceKind::User, NamespaceKind::Mnt, NamespaceKind::Time] {
            let error = make(None, &[kind], None).unwrap_err();
            assert!(matches!(error, Error::NotSuchNamespaces { .. }), "{error}");
        }
    }
}
