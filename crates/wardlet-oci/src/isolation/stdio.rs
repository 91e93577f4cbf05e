//! The standard streams of a container's process.

use std::os::fd::BorrowedFd;

use ids::IdMappings;
use rustix::fs::{FileType, Gid, Uid, fchown, fstat};
use serde_json::Value;

use super::{Error, Result, json};

/// Changes the owner of those standard streams that are pipes to the user that `process` runs as. The runtime inherits
/// them, and a process that opens `/dev/stdout` opens the pipe again, as that user. Files, terminals and sockets keep
/// their owner. It is an error if the user is not in the ID mappings.
pub(super) fn give(process: &Value, ids: &IdMappings) -> Result<()> {
    let user = process.get("user").unwrap_or(&Value::Null);
    let (uid, gid) =
        (json::number(user, "uid")?.unwrap_or_default(), json::number(user, "gid")?.unwrap_or_default());
    let user = ids.host_user(uid).ok_or(Error::UserUnmapped { kind: "user", id: uid })?;
    let group = ids.host_group(gid).ok_or(Error::UserUnmapped { kind: "group", id: gid })?;
    if process.get("terminal").and_then(Value::as_bool) == Some(true) {
        return Ok(());
    }
    let streams = [
        ("stdin", rustix::stdio::stdin()),
        ("stdout", rustix::stdio::stdout()),
        ("stderr", rustix::stdio::stderr()),
    ];
    for (stream, fd) in streams.into_iter().filter(|(_, fd)| is_pipe(*fd)) {
        fchown(fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).map_err(|errno| Error::Stream {
            stream,
            user,
            errno,
        })?;
    }
    Ok(())
}

/// Whether a descriptor is a pipe. A closed one is not.
fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}
