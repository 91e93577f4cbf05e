//! `/etc/passwd` and `/etc/group`: accounts with IDs that a block could hold.

use ids::{HostId, HostSpan, UNIT};

use super::{Claims, Ids};
use crate::owner::OwnerKind;

pub(super) fn read(claims: &mut Claims<'_>) {
    for (file, what) in [("/etc/passwd", Account::User), ("/etc/group", Account::Group)] {
        let Some(text) = claims.text(file) else { continue };
        for (line, number) in text.lines().zip(1..) {
            match account(line, what) {
                Ok(Some((name, ids))) => {
                    let (kind, title) = what.owner(name);
                    claims.add(kind, format!("{title} {name} ({file} line {number})"), ids);
                }
                Ok(None) => {}
                Err(cause) => claims.problem(file, format!("line {number} {line:?}: {cause}")),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Account {
    User,
    Group,
}

impl Account {
    fn owner(self, name: &str) -> (OwnerKind, &'static str) {
        match self {
            Self::User => (OwnerKind::Passwd { user: name.to_owned() }, "user"),
            Self::Group => (OwnerKind::Group { group: name.to_owned() }, "group"),
        }
    }
}

/// `None` for a line without an ID from 65536 up, and for one that only points to NIS.
fn account(line: &str, what: Account) -> Result<Option<(&str, Ids)>, String> {
    if line.trim().is_empty() || line.starts_with(['#', '+', '-']) {
        return Ok(None);
    }
    let mut fields = line.split(':');
    let (name, _password) = (fields.next().unwrap_or_default(), fields.next());
    let mut field = |title| id(title, fields.next());
    let ids = match what {
        Account::User => Ids { uids: field("uid")?, gids: field("gid")? },
        Account::Group => Ids { uids: vec![], gids: field("group ID")? },
    };
    Ok((!ids.is_empty()).then_some((name, ids)))
}

fn id(title: &str, text: Option<&str>) -> Result<Vec<HostSpan>, String> {
    let text = text.ok_or_else(|| format!("the {title} is missing"))?;
    let number = text.parse::<u64>().ok().and_then(|n| HostId::try_from(n).ok());
    let id = number.ok_or_else(|| format!("{title} {text:?} is no ID"))?;
    Ok(if u64::from(id) < UNIT { vec![] } else { vec![HostSpan::single(id)] })
}
