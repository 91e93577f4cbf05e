use std::os::fd::BorrowedFd;

use container::{ContainerSpec, User};
use ids::IdMapping;
use rustix::fs::{FileType, Uid, fchown, fstat};

/// The host ID of a container's.
pub(crate) fn of(lines: &[IdMapping], id: u32) -> Option<u32> {
    lines.iter().find_map(|line| {
        let offset = id.checked_sub(line.container().get())?;
        (u64::from(offset) < line.length()).then(|| line.host().first().checked_add(offset))?
    })
}

/// Chowns pipes that are standard streams to the container's user, which may open them by name (`/dev/stdout`). No
/// start depends on it, so that it may fail.
pub(crate) fn give_streams(start: &ContainerSpec, user: &User) {
    let host = match &start.ids {
        Some(ids) => of(&ids.uids, user.uid),
        None => Some(user.uid),
    };
    let Some(host) = host else { return };
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        if is_pipe(stream) {
            let _ = fchown(stream, Some(Uid::from_raw(host)), None);
        }
    }
}

fn is_pipe(stream: BorrowedFd<'_>) -> bool {
    fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}
