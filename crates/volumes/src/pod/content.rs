//! What is in a volume from the start.

use kernel::{Access, Dir};

use super::users::Users;
use crate::error::{Error, Result};
use crate::ownership::{FsGroup, FsGroupChangePolicy, GroupChange, apply_fs_group};
use crate::payload::Payload;
use crate::record::{MadeState, MadeVolume};
use crate::wanted::{Source, Wanted, WantedVolume};
use crate::writer::{self, Writer};

/// Gives a volume its files and its group. Scratch space that is ready is the pod's, and left alone.
pub(crate) fn write(
    dir: &Dir,
    volume: &WantedVolume,
    made: &MadeVolume,
    wanted: &Wanted,
    users: &Users<'_>,
) -> Result<()> {
    match &volume.source {
        Source::Written(written) => payload(dir, made, &written.payload, wanted, users).map(drop),
        Source::EmptyDir(_) if made.state == MadeState::Making => {
            let Some(group) = wanted.fs_group else { return Ok(()) };
            let change = GroupChange {
                owners: &users.owners(made.numbers),
                fs_group: FsGroup { group, access: Access::ReadWrite },
                policy: FsGroupChangePolicy::Always,
            };
            let failed = |cause| Error::Ownership { volume: volume.name.clone(), cause: Box::new(cause) };
            let applied = apply_fs_group(dir, change, &mut |_| {}).map_err(failed)?;
            match applied.failures.into_iter().next() {
                None => Ok(()),
                Some(first) => Err(Error::NotGiven { volume: volume.name.clone(), first }),
            }
        }
        _ => Ok(()),
    }
}

/// Makes a volume's files those of the payload.
pub(crate) fn payload(
    dir: &Dir,
    made: &MadeVolume,
    payload: &Payload,
    wanted: &Wanted,
    users: &Users<'_>,
) -> Result<writer::Written> {
    // The pod never has reason to write these, so its group may read them and no more.
    let fs_group = wanted.fs_group.map(|group| FsGroup { group, access: Access::ReadOnly });
    let owners = users.owners(made.numbers);
    let written = Writer { volume: dir, owners: &owners, fs_group }.write(payload);
    written.map_err(|cause| Error::Writer { volume: made.name.clone(), cause: Box::new(cause) })
}
