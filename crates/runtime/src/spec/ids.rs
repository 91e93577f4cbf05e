//! User and group numbers of CRI, which come as 64-bit integers.

use ids::{ContainerId, IdMapping, IdMappings};

use types::Refusal;

/// Which of a user namespace's maps a number is looked up in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    User,
    Group,
}

/// The number of a user or group that exists in the container's user namespace.
pub(super) fn id(number: i64, kind: Kind, ids: Option<&IdMappings>, field: &str) -> Result<u32, Refusal> {
    let read = u64::try_from(number).ok().and_then(|number| ContainerId::try_from(number).ok());
    let id = read.ok_or_else(|| Refusal::new(field, format!("{number} is no user or group ID")))?;
    let lines = ids.map(|ids| match kind {
        Kind::User => &ids.uids,
        Kind::Group => &ids.gids,
    });
    match lines {
        Some(lines) if !lines.iter().any(|line| holds(*line, id)) => {
            let cause = format!("{id} is not mapped in the pod's user namespace");
            Err(Refusal::new(field, cause).with_hint("take a lower ID, or give the pod more of them"))
        }
        _ => Ok(id.get()),
    }
}

fn holds(line: IdMapping, id: ContainerId) -> bool {
    let first = u64::from(line.container());
    (first..first.saturating_add(line.length())).contains(&u64::from(id))
}
