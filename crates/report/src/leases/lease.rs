//! A lease as it is shown.

use ids::IdMapping;
use ids::allocator::State;
use ledger::{Lease, Tenure};
use serde::Serialize;
use types::time;

use crate::table;

/// A lease for programs: the first four fields stay as they are.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    holder: Option<String>,
    state: &'static str,
    uid_mappings: [IdMapping; 1],
    gid_mappings: [IdMapping; 1],
    since: String,
    /// The end of a quarantine.
    rests_until: Option<String>,
    /// Its members; `None` for a lease that is not shared.
    members: Option<Vec<String>>,
    tenure: Tenure,
    places: Vec<String>,
    categories: Option<String>,
    note: Option<String>,
}

impl From<&Lease> for LeaseView {
    fn from(lease: &Lease) -> Self {
        Self {
            holder: lease.holder.as_ref().map(ToString::to_string),
            state: lease.state_name(),
            uid_mappings: [IdMapping::of_block(lease.uids)],
            gid_mappings: [IdMapping::of_block(lease.gids)],
            since: time::stamp(lease.since),
            rests_until: match lease.state {
                State::Quarantined { until } => Some(time::stamp(until)),
                _ => None,
            },
            members: lease.members.as_ref().map(|m| m.iter().map(ToString::to_string).collect()),
            tenure: lease.tenure,
            places: lease.places.iter().map(|p| p.display().to_string()).collect(),
            categories: lease.categories.map(|pair| pair.to_string()),
            note: lease.note.clone(),
        }
    }
}

/// The holder's name; `(none)` for a block that is only kept from being leased.
#[must_use]
pub fn holder_name(lease: &Lease) -> String {
    lease.holder.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string)
}

/// One lease, a line for each fact.
#[must_use]
pub fn lease_text(lease: &Lease) -> String {
    let mut facts = vec![
        ("holder", holder_name(lease)),
        ("state", lease.state_name().to_owned()),
        ("uids", lease.uids.to_string()),
        ("gids", lease.gids.to_string()),
        ("size", lease.uids.length().to_string()),
    ];
    if let Some(members) = &lease.members {
        let names: Vec<_> = members.iter().map(ToString::to_string).collect();
        facts.push(("shared by", names.join(" ")));
    }
    if lease.tenure == Tenure::UntilReboot {
        facts.push(("tenure", "until the next boot".to_owned()));
    }
    facts.extend(lease.places.iter().map(|p| ("place", p.display().to_string())));
    facts.extend(lease.categories.map(|pair| ("categories", pair.to_string())));
    facts.extend(lease.note.clone().map(|note| ("note", note)));
    let rows: Vec<_> = facts.into_iter().map(|(name, fact)| [name.to_owned(), fact]).collect();
    match rows.split_first() {
        Some(([name, fact], rest)) => table([name, fact], rest),
        None => String::new(),
    }
}
