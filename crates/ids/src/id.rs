use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of IDs there are: 2^32 less the one the kernel keeps to mean "none", (uid_t)-1.
pub(crate) const ID_COUNT: u64 = u32::MAX as u64;

/// A number that is no user or group ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an ID: IDs go from 0 to 4294967294")]
pub struct IdOutOfRange(pub u64);

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u32")]
        pub struct $name(u32);

        impl $name {
            /// The bare number, for the kernel and for print.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = IdOutOfRange;

            fn try_from(id: u64) -> Result<Self, IdOutOfRange> {
                match u32::try_from(id) {
                    Ok(narrow) if id < ID_COUNT => Ok(Self(narrow)),
                    _ => Err(IdOutOfRange(id)),
                }
            }
        }

        impl From<$name> for u32 {
            fn from(id: $name) -> u32 {
                id.0
            }
        }

        impl From<$name> for u64 {
            fn from(id: $name) -> u64 {
                u64::from(id.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id_type! {
    /// An ID as the host sees it.
    HostId
}
id_type! {
    /// An ID as the processes of a user namespace see it.
    ContainerId
}

impl ContainerId {
    /// Root inside.
    pub const ROOT: Self = Self(0);
}

/// User and group IDs are two spaces of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// User IDs.
    Uid,
    /// Group IDs.
    Gid,
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uid => "uid",
            Self::Gid => "gid",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_no_id_is_no_host_id() {
        assert_eq!(HostId::try_from(4_294_967_295), Err(IdOutOfRange(4_294_967_295)));
        assert_eq!(HostId::try_from(4_294_967_296), Err(IdOutOfRange(4_294_967_296)));
        assert_eq!(HostId::try_from(4_294_967_294).unwrap().get(), 4_294_967_294);
    }
}
