use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use serde::Serialize;

use super::{Access, DetachedMount, Flags, fs_log};
use crate::path::Owner;
use crate::{Error, Result};

/// mount(2) reads one page of options, the closing NUL included, and drops the rest silently.
pub(super) const LONGEST_OPTIONS: usize = 4095;

/// A filesystem to be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Filesystem {
    /// Which, and how it is set up.
    pub kind: FilesystemKind,
    /// The SELinux label that all its files shall have; their own, by default.
    pub context: Option<String>,
    /// Whether the mount of it can be written through.
    pub access: Access,
    /// What the mount of it forbids.
    pub flags: Flags,
}

/// Filesystems with their settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FilesystemKind {
    /// Memory.
    Tmpfs {
        /// How many bytes it may take; half of the machine's memory by default.
        size: Option<u64>,
        /// How many files it may have; the default of the kernel if not set.
        inodes: Option<u64>,
        /// Permissions of its root.
        mode: u32,
        /// Owner of its root.
        owner: Owner,
    },
    /// Huge pages.
    Hugetlbfs {
        /// The size of a page in bytes, such as 2 MiB.
        page_size: u64,
        /// How many bytes it may take; all there are by default.
        size: Option<u64>,
        /// Permissions of its root.
        mode: u32,
        /// Owner of its root.
        owner: Owner,
    },
    /// Any other that this kernel has.
    Other {
        /// Its type, as in /proc/filesystems.
        name: String,
        /// The device or whatever else it is mounted from.
        source: Option<String>,
        /// Its settings.
        options: Vec<FsOption>,
    },
}

/// A setting of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FsOption {
    /// Its name.
    pub key: String,
    /// Its value, if it has one.
    pub value: Option<String>,
}

/// A setting's value: a text or a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsValue(String);

impl From<&str> for FsValue {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for FsValue {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<u32> for FsValue {
    fn from(number: u32) -> Self {
        Self(number.to_string())
    }
}

impl From<i32> for FsValue {
    fn from(number: i32) -> Self {
        Self(number.to_string())
    }
}

impl From<u64> for FsValue {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl FsOption {
    /// `key=value`.
    #[must_use]
    pub fn new(key: &str, value: impl Into<FsValue>) -> Self {
        Self { key: key.to_owned(), value: Some(value.into().0) }
    }

    /// A setting without a value.
    #[must_use]
    pub fn flag(key: &str) -> Self {
        Self { key: key.to_owned(), value: None }
    }
}

impl FilesystemKind {
    /// Its type, as in /proc/filesystems.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tmpfs { .. } => "tmpfs",
            Self::Hugetlbfs { .. } => "hugetlbfs",
            Self::Other { name, .. } => name,
        }
    }

    fn source(&self) -> &str {
        match self {
            Self::Other { source: Some(source), .. } => source,
            kind => kind.name(),
        }
    }

    fn options(&self) -> Vec<FsOption> {
        let limit = |key, value: &Option<u64>| value.map(|value| FsOption::new(key, value));
        match self {
            Self::Tmpfs { size, inodes, mode, owner } => {
                let limits = [limit("size", size), limit("nr_inodes", inodes)];
                root_options(*mode, *owner).into_iter().chain(limits.into_iter().flatten()).collect()
            }
            Self::Hugetlbfs { page_size, size, mode, owner } => {
                let page_size = Some(FsOption::new("pagesize", *page_size));
                let own = [page_size, limit("size", size)];
                root_options(*mode, *owner).into_iter().chain(own.into_iter().flatten()).collect()
            }
            Self::Other { options, .. } => options.clone(),
        }
    }
}

fn root_options(mode: u32, owner: Owner) -> [FsOption; 3] {
    let mode = FsOption::new("mode", format!("{mode:o}"));
    [mode, FsOption::new("uid", owner.uid), FsOption::new("gid", owner.gid)]
}

impl Filesystem {
    /// With its files' own labels, writable, nothing forbidden.
    #[must_use]
    pub fn new(kind: FilesystemKind) -> Self {
        Self { kind, context: None, access: Access::ReadWrite, flags: Flags::NONE }
    }

    /// Makes it, attached nowhere. If a context was asked for, it is checked in mountinfo when this
    /// is attached, and a mount without it is unmounted again.
    pub fn make(&self) -> Result<DetachedMount> {
        let context = fsopen(self.kind.name(), FsOpenFlags::FSOPEN_CLOEXEC).map_err(self.failed(None))?;
        if let FilesystemKind::Other { source: Some(source), .. } = &self.kind {
            self.configure(&context, &FsOption::new("source", source.as_str()))?;
        }
        // One value here is one value, commas and all: no quotes.
        let label = self.context.iter().map(|label| FsOption::new("context", label.as_str()));
        for option in self.kind.options().into_iter().chain(label) {
            self.configure(&context, &option)?;
        }
        fsconfig_create(&context).map_err(self.failed(Some(&context)))?;
        let attributes = MountAttrFlags::from_bits_retain(self.attribute_bits());
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(self.failed(Some(&context)))?;
        let what = format!("a {}", self.kind.name());
        Ok(DetachedMount::new(mount, what).labelled(self.context.as_deref()))
    }

    /// Mounts it at `target` by mount(2), for what has no other way. A context is looked for in
    /// mountinfo; a mount without it is unmounted again.
    pub fn mount_at(&self, target: &Path) -> Result<()> {
        let options = self.option_text().ok_or_else(|| self.failed(None)(Errno::INVAL))?;
        let (source, name) = (self.kind.source(), self.kind.name());
        rustix::mount::mount(source, target, name, self.mount_flags(), options.as_c_str())
            .map_err(self.failed(None))?;
        let Some(wanted) = &self.context else { return Ok(()) };
        super::verify_context(target, wanted).or_else(|mismatch| {
            super::unmount(target, super::Unmount::Lazy)?;
            Err(mismatch)
        })
    }

    /// The settings as mount(2) takes them, if it can take them at all: quotes keep the commas of a
    /// label together, nothing does that for other values.
    fn option_text(&self) -> Option<CString> {
        let quoted = self.context.iter().map(|label| FsOption::new("context", format!("\"{label}\"")));
        let options = self.kind.options();
        let clean = |text: &str| !text.contains([',', '"']);
        if !options.iter().all(|option| clean(&option.key) && option.value.as_deref().is_none_or(clean))
            || self.context.as_ref().is_some_and(|label| label.contains('"'))
        {
            return None;
        }
        let words: Vec<String> = options.into_iter().chain(quoted).map(|option| text(&option)).collect();
        CString::new(words.join(",")).ok().filter(|text| text.as_bytes().len() <= LONGEST_OPTIONS)
    }

    fn configure(&self, context: &OwnedFd, option: &FsOption) -> Result<()> {
        match &option.value {
            Some(value) => fsconfig_set_string(context, option.key.as_str(), value.as_str()),
            None => fsconfig_set_flag(context, option.key.as_str()),
        }
        .map_err(|errno| Error::FilesystemOption {
            name: self.kind.name().to_owned(),
            option: text(option),
            errno,
            log: fs_log(context),
        })
    }

    fn attribute_bits(&self) -> u32 {
        let read_only = match self.access {
            Access::ReadWrite => 0,
            Access::ReadOnly => libc::MOUNT_ATTR_RDONLY,
        };
        // All flags that there are lie in the lower half.
        u32::try_from(self.flags.bits() | read_only).unwrap_or(u32::MAX)
    }

    fn mount_flags(&self) -> MountFlags {
        let pairs = [
            (Flags::NOSUID, MountFlags::NOSUID),
            (Flags::NODEV, MountFlags::NODEV),
            (Flags::NOEXEC, MountFlags::NOEXEC),
            (Flags::NOSYMFOLLOW, MountFlags::from_bits_retain(256)),
        ];
        let wanted = pairs.into_iter().filter(|(flag, _)| self.flags.contains(*flag));
        let read_only = match self.access {
            Access::ReadWrite => MountFlags::empty(),
            Access::ReadOnly => MountFlags::RDONLY,
        };
        wanted.fold(read_only, |all, (_, bits)| all | bits)
    }

    fn failed<'a>(&'a self, context: Option<&'a OwnedFd>) -> impl Fn(Errno) -> Error + 'a {
        move |errno| Error::MakeFilesystem {
            name: self.kind.name().to_owned(),
            errno,
            log: context.map(fs_log).unwrap_or_default(),
        }
    }
}

pub(super) fn text(option: &FsOption) -> String {
    match &option.value {
        Some(value) => format!("{}={value}", option.key),
        None => option.key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(options: Vec<FsOption>, context: Option<&str>) -> Filesystem {
        let kind = FilesystemKind::Other { name: "x".into(), source: None, options };
        Filesystem { context: context.map(str::to_owned), ..Filesystem::new(kind) }
    }

    #[test]
    fn a_label_is_quoted_for_mount_and_commas_elsewhere_are_refused() {
        let label = "u:r:t:s0:c1,c2";
        let text = other(vec![FsOption::flag("a"), FsOption::new("b", 1)], Some(label)).option_text();
        assert_eq!(text.unwrap().to_str().unwrap(), "a,b=1,context=\"u:r:t:s0:c1,c2\"");
        assert_eq!(other(vec![FsOption::new("b", "1,2")], None).option_text(), None);
        assert_eq!(other(vec![], Some("quo\"te")).option_text(), None);
        assert_eq!(other(vec![FsOption::new("b", "x".repeat(5000))], None).option_text(), None);
    }

    #[test]
    fn a_tmpfs_is_told_size_mode_and_owner() {
        let owner = Owner { uid: 65_536, gid: 65_537 };
        let kind = FilesystemKind::Tmpfs { size: Some(4096), inodes: None, mode: 0o1777, owner };
        let text = Filesystem::new(kind).option_text().unwrap();
        assert_eq!(text.to_str().unwrap(), "mode=1777,uid=65536,gid=65537,size=4096");
    }
}
