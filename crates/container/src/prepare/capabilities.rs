//! The capabilities that a container can really be given.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::capabilities::{self, Sets};
use crate::container_spec::{ContainerSpec, NamespaceSpec};
use crate::error::{Error, Result};

/// The capabilities of the container. `ALL` means all that exist: a kernel may not know some of ours, and with the
/// host's users no process can get a capability that this one lacks. A capability that was requested by name and
/// cannot be granted is an error.
pub(super) fn given(start: &ContainerSpec) -> Result<Sets> {
    let wanted = &start.process.capabilities;
    let available = available(&start.namespaces.user)?;
    let all = wanted.bounding == capabilities::all().bounding;
    let missing: Vec<String> =
        wanted.bounding.iter().filter(|name| !available.contains(name.as_str())).cloned().collect();
    if !missing.is_empty() && !all {
        return Err(Error::Capabilities { names: missing });
    }
    let cut = |set: &[String]| set.iter().filter(|n| available.contains(n.as_str())).cloned().collect();
    Ok(Sets {
        bounding: cut(&wanted.bounding),
        effective: cut(&wanted.effective),
        inheritable: cut(&wanted.inheritable),
        permitted: cut(&wanted.permitted),
        ambient: cut(&wanted.ambient),
    })
}

/// In a user namespace the first process has all that the kernel knows.
fn available(users: &NamespaceSpec) -> Result<BTreeSet<String>> {
    let names = capabilities::all().bounding.into_iter().enumerate();
    let held = match users {
        NamespaceSpec::Host => bounding()?,
        NamespaceSpec::New | NamespaceSpec::At(_) => up_to_last()?,
    };
    Ok(names.filter(|(bit, _)| held & (1 << bit) != 0).map(|(_, name)| name).collect())
}

fn bounding() -> Result<u64> {
    let path = Path::new("/proc/thread-self/status");
    let text = read(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).ok_or_else(|| nonsense(path))
}

fn up_to_last() -> Result<u64> {
    let path = Path::new("/proc/sys/kernel/cap_last_cap");
    let last: u32 = read(path)?.trim().parse().map_err(|_| nonsense(path))?;
    Ok(u64::MAX.checked_shr(63_u32.saturating_sub(last)).unwrap_or(0))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|cause| Error::File { what: "read", path: path.to_owned(), cause })
}

fn nonsense(path: &Path) -> Error {
    Error::File { what: "read", path: path.to_owned(), cause: std::io::ErrorKind::InvalidData.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_namespace_has_at_least_what_the_host_gives() {
        let (host, inside) =
            (available(&NamespaceSpec::Host).unwrap(), available(&NamespaceSpec::New).unwrap());
        assert!(host.is_subset(&inside));
        assert!(inside.contains("CAP_CHOWN") && inside.contains("CAP_BPF"), "{inside:?}");
    }
}
