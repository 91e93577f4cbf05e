//! What became of a lease on its way to being free, as it is shown.

use ids::HostSpan;
use ledger::{Lease, Outcome, Verdict};
use serde::Serialize;
use types::time;

use super::holder_name;

/// What became of a lease, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictView {
    holder: Option<String>,
    uids: HostSpan,
    gids: HostSpan,
    /// `quarantined`, `freed`, `draining` or `unseen`.
    outcome: &'static str,
    /// The end of its rest.
    until: Option<String>,
    /// What keeps it from being free.
    kept_by: Vec<String>,
}

impl From<&Verdict> for VerdictView {
    fn from(Verdict { lease, outcome }: &Verdict) -> Self {
        let (outcome, until, kept_by) = match outcome {
            Outcome::Quarantined { until } | Outcome::Resting { until } => {
                ("quarantined", Some(time::stamp(*until)), Vec::new())
            }
            Outcome::Freed => ("freed", None, Vec::new()),
            Outcome::InUse(users) => ("draining", None, users.clone()),
            Outcome::Unseen(blind) => ("unseen", None, blind.clone()),
        };
        Self {
            holder: lease.holder.as_ref().map(ToString::to_string),
            uids: lease.uids.span(),
            gids: lease.gids.span(),
            outcome,
            until,
            kept_by,
        }
    }
}

/// What became of a lease, in one line.
#[must_use]
pub fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Quarantined { until } | Outcome::Resting { until } => {
            format!("quarantined: vacant, rests until {}", time::stamp(*until))
        }
        Outcome::Freed => "free".to_owned(),
        Outcome::InUse(users) => {
            let named = |u: &String| if u.starts_with('/') { u.clone() } else { format!("in use by {u}") };
            format!("draining: {}", users.iter().map(named).collect::<Vec<_>>().join("; "))
        }
        Outcome::Unseen(blind) => format!("draining: not everything could be seen: {}", few(blind)),
    }
}

/// The first of these facts, and how many more there are.
#[must_use]
pub fn few(facts: &[String]) -> String {
    match facts {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// The holder's name and its user IDs.
pub(super) fn subject(lease: &Lease) -> [String; 2] {
    [holder_name(lease), lease.uids.to_string()]
}
