use std::path::Path;

use kernel::Owner;
use serde::{Deserialize, Serialize};

/// An ID and a file that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owned {
    /// The ID inside the container.
    pub id: u32,
    /// The file, from the image's root on.
    pub file: String,
}

/// The highest user and group IDs of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Highest {
    /// The highest user.
    pub uid: Owned,
    /// The highest group.
    pub gid: Owned,
}

impl Highest {
    pub(crate) fn see(&mut self, owner: Owner, file: &Path) {
        let higher = |owned: &mut Owned, id: u32| {
            if id > owned.id {
                *owned = Owned { id, file: file.to_string_lossy().into_owned() };
            }
        };
        higher(&mut self.uid, owner.uid);
        higher(&mut self.gid, owner.gid);
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let higher = |one: Owned, two: Owned| if two.id > one.id { two } else { one };
        Self { uid: higher(self.uid, other.uid), gid: higher(self.gid, other.gid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_told_apart() {
        let mut one = Highest::default();
        one.see(Owner { uid: 7, gid: 1 }, Path::new("a"));
        let mut two = Highest::default();
        two.see(Owner { uid: 3, gid: 9 }, Path::new("b"));
        let both = one.and(two);
        assert_eq!((both.uid.id, both.uid.file.as_str()), (7, "a"));
        assert_eq!((both.gid.id, both.gid.file.as_str()), (9, "b"));
    }
}
