use std::fmt;

use kernel::Kind;

/// The type of a hostPath.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostPathType {
    /// Any. A missing one becomes a directory, as in container runtimes.
    #[default]
    Unset,
    /// A directory, made with mode 0755 if there is none.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, made empty with mode 0644 if there is none; its directory is not made.
    FileOrCreate,
    /// A file.
    File,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// An unknown type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a hostPath type")]
pub struct UnknownType(pub String);

/// What is made where nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrCreate {
    Nothing,
    Directory,
    File,
}

impl HostPathType {
    /// The type of this name; the empty one is [`Self::Unset`].
    pub fn parse(name: &str) -> Result<Self, UnknownType> {
        Ok(match name {
            "" => Self::Unset,
            "DirectoryOrCreate" => Self::DirectoryOrCreate,
            "Directory" => Self::Directory,
            "FileOrCreate" => Self::FileOrCreate,
            "File" => Self::File,
            "Socket" => Self::Socket,
            "CharDevice" => Self::CharDevice,
            "BlockDevice" => Self::BlockDevice,
            other => return Err(UnknownType(other.to_owned())),
        })
    }

    pub(crate) fn allows(self, found: Kind) -> bool {
        match self {
            Self::Unset => true,
            Self::DirectoryOrCreate | Self::Directory => found == Kind::Directory,
            Self::FileOrCreate | Self::File => found == Kind::File,
            Self::Socket => found == Kind::Socket,
            Self::CharDevice => found == Kind::CharDevice,
            Self::BlockDevice => found == Kind::BlockDevice,
        }
    }

    pub(crate) fn or_create(self) -> OrCreate {
        match self {
            Self::Unset | Self::DirectoryOrCreate => OrCreate::Directory,
            Self::FileOrCreate => OrCreate::File,
            _ => OrCreate::Nothing,
        }
    }
}

impl fmt::Display for HostPathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unset => "anything",
            Self::DirectoryOrCreate | Self::Directory => "a directory",
            Self::FileOrCreate | Self::File => "a file",
            Self::Socket => "a socket",
            Self::CharDevice => "a character device",
            Self::BlockDevice => "a block device",
        })
    }
}

/// What something is, as text.
pub(crate) fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Symlink => "a symbolic link",
        Kind::BlockDevice => "a block device",
        Kind::CharDevice => "a character device",
        Kind::Fifo => "a named pipe",
        Kind::Socket => "a socket",
        Kind::Other => "something unknown",
    }
}
