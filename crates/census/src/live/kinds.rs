//! The kinds of namespaces, as the kernel writes them in links.

use kernel::NamespaceKind;

/// Where a task's namespaces are found below its directory, but for that of users and of mounts, which are
/// looked at for themselves. What its children will live in is held by it, too.
pub(crate) const HOMES: [&str; 6] =
    ["ns/net", "ns/pid_for_children", "ns/ipc", "ns/uts", "ns/cgroup", "ns/time_for_children"];

/// The same for what the kernel lets no thread have apart from its process.
pub(crate) const HOMES_OF_PROCESS: [&str; 2] = ["ns/pid", "ns/time"];

/// The kind and the inode in a link such as `user:[4026531837]`; sockets and pipes are written alike.
pub(crate) fn linked(link: &[u8]) -> Option<(NamespaceKind, u64)> {
    let kind = NamespaceKind::ALL.into_iter().find(|kind| {
        let rest = link.strip_prefix(kind.file().as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b":["))
    })?;
    let number = link.get(kind.file().len() + 2..)?.strip_suffix(b"]")?;
    Some((kind, std::str::from_utf8(number).ok()?.parse().ok()?))
}

/// The inode in such a link, if it is of this kind.
pub(crate) fn inode_of(link: &[u8], kind: NamespaceKind) -> Option<u64> {
    linked(link).filter(|(found, _)| *found == kind).map(|(_, inode)| inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_link_is_read_whole_or_not_at_all() {
        assert_eq!(linked(b"user:[4026531837]"), Some((NamespaceKind::User, 4_026_531_837)));
        assert_eq!(linked(b"net:[1]"), Some((NamespaceKind::Net, 1)));
        assert_eq!(inode_of(b"net:[1]", NamespaceKind::User), None);
        for other in ["user:[1", "/tmp/user:[1]", "socket:[1]", "pipe:[1]", "network:[1]", "user:[]", ""] {
            assert_eq!(linked(other.as_bytes()), None, "{other}");
        }
    }
}
