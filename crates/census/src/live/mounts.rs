//! nsfs mounts in `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use kernel::NamespaceKind;

use super::kinds::linked;

/// A namespace kept by a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamespaceMount {
    pub(crate) kind: NamespaceKind,
    pub(crate) inode: u64,
    /// As the tasks of that mount namespace see it.
    pub(crate) point: PathBuf,
}

/// The mounts of namespaces in a mountinfo text.
pub(crate) fn namespace_mounts(mountinfo: &[u8]) -> Vec<NamespaceMount> {
    mountinfo.split(|b| *b == b'\n').filter_map(mounted_namespace).collect()
}

/// Fields: mount ID, parent, device, root, mount point, options, optional ones, `-`, type, ...
/// For an nsfs mount the root is the namespace, as in `user:[4026532177]`.
fn mounted_namespace(line: &[u8]) -> Option<NamespaceMount> {
    let mut fields = line.split(|b| *b == b' ');
    let (kind, inode) = linked(fields.nth(3)?)?;
    let point = unescaped(fields.next()?);
    let nsfs = fields.skip_while(|f| *f != b"-").nth(1)? == b"nsfs";
    nsfs.then(|| NamespaceMount { kind, inode, point: PathBuf::from(OsString::from_vec(point)) })
}

/// The kernel writes blanks and backslashes as three octal digits behind a backslash.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.split_at_checked(3)).flatten();
        match octal.and_then(|(digits, after)| Some((octal_byte(digits)?, after))) {
            Some((byte, after)) => {
                plain.push(byte);
                rest = after;
            }
            None => {
                plain.push(byte);
                rest = tail;
            }
        }
    }
    plain
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_namespaces_are_taken() {
        let text = b"22 1 0:20 / /proc rw - proc proc rw\n\
            30 22 0:4 user:[4026532177] /run/my\\040ns rw shared:9 master:2 - nsfs nsfs rw\n\
            31 22 0:4 net:[4026532178] /run/net rw - nsfs nsfs rw\n\
            32 22 0:9 user:[1] /odd rw - ext4 /dev/sda rw\n";
        let mount = |kind, inode, point: &str| NamespaceMount { kind, inode, point: point.into() };
        let users = mount(NamespaceKind::User, 4_026_532_177, "/run/my ns");
        assert_eq!(namespace_mounts(text), [users, mount(NamespaceKind::Net, 4_026_532_178, "/run/net")]);
    }

    #[test]
    fn a_line_cut_short_is_no_mount() {
        assert!(namespace_mounts(b"30 22 0:4 user:[12] /x rw -").is_empty());
        assert!(namespace_mounts(b"30 22").is_empty());
    }
}
