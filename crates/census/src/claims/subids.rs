//! `/etc/subuid` and `/etc/subgid`: IDs given to others than the pool.

use ids::parse::subid::parse_subids;

use super::{Claims, Ids};
use crate::owner::OwnerKind;

pub(super) fn read(claims: &mut Claims<'_>, pool_owner: Option<&str>) {
    for file in ["/etc/subuid", "/etc/subgid"] {
        let Some(text) = claims.text(file) else { continue };
        let subids = parse_subids(&text);
        for entry in subids.entries {
            if pool_owner == Some(entry.owner.as_str()) {
                continue;
            }
            let name = format!("subordinate IDs of {} ({file} line {})", entry.owner, entry.line);
            let (owner, line) = (entry.owner, entry.line);
            match file {
                "/etc/subuid" => {
                    let ids = Ids { uids: vec![entry.ids], gids: vec![] };
                    claims.add(OwnerKind::Subuid { owner, line }, name, ids);
                }
                _ => {
                    let ids = Ids { uids: vec![], gids: vec![entry.ids] };
                    claims.add(OwnerKind::Subgid { owner, line }, name, ids);
                }
            }
        }
        for problem in subids.problems {
            claims.problem(file, format!("{problem}; {}", problem.hint()));
        }
    }
}
