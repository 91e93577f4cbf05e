//! A category pair without a block as it is shown.

use ledger::{HeldPair, PairOrigin, PairVerdict};
use serde::Serialize;

use types::time;

use crate::table;

/// A category pair without a block, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairView {
    holder: String,
    categories: String,
    origin: PairOrigin,
    /// `held`, or `released` while the directory of its holder exists.
    state: &'static str,
    place: String,
    since: String,
}

impl From<&HeldPair> for PairView {
    fn from(held: &HeldPair) -> Self {
        Self {
            holder: held.holder.to_string(),
            categories: held.pair.to_string(),
            origin: held.origin,
            state: state(held),
            place: held.place.display().to_string(),
            since: time::stamp(held.since),
        }
    }
}

/// What a collection came to for one pair.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PairVerdictView {
    #[serde(flatten)]
    pair: PairView,
    freed: bool,
    /// What keeps it.
    kept_by: Option<String>,
}

impl From<&PairVerdict> for PairVerdictView {
    fn from(verdict: &PairVerdict) -> Self {
        let kept_by = (!verdict.freed).then(|| format!("{} still exists", verdict.held.place.display()));
        Self { pair: PairView::from(&verdict.held), freed: verdict.freed, kept_by }
    }
}

fn state(held: &HeldPair) -> &'static str {
    if held.released { "released" } else { "held" }
}

/// All of them with their ages at `now`, a line each; nothing where there are none.
#[must_use]
pub fn pairs_table(pairs: &[HeldPair], now: u64) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let origin = |held: &HeldPair| match held.origin {
        PairOrigin::Allocated => "allocated",
        PairOrigin::Named => "named",
    };
    let rows: Vec<[String; 5]> = pairs
        .iter()
        .map(|held| {
            let age = time::age(held.since, now);
            [
                held.holder.to_string(),
                state(held).to_owned(),
                held.pair.to_string(),
                origin(held).to_owned(),
                age,
            ]
        })
        .collect();
    format!(
        "SELinux categories without a block:\n{}",
        table(["HOLDER", "STATE", "CATEGORIES", "ORIGIN", "SINCE"], &rows)
    )
}

/// What a collection came to, a line for each pair.
pub(super) fn verdicts_text(verdicts: &[PairVerdict]) -> String {
    let line = |verdict: &PairVerdict| {
        let HeldPair { holder, pair, place, .. } = &verdict.held;
        if verdict.freed {
            format!("{holder}: SELinux categories {pair} are free\n")
        } else {
            format!("{holder}: SELinux categories {pair} are kept: {} still exists\n", place.display())
        }
    };
    verdicts.iter().map(line).collect()
}
