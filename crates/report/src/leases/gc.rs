use std::collections::BTreeMap;

use ledger::{Lease, PairVerdict, Verdict};
use serde::Serialize;

use super::pair::{PairVerdictView, verdicts_text};
use super::verdict::subject;
use super::{LeaseView, VerdictView, outcome_text};
use crate::{table, wrapped};

/// What a collection of leases that are no longer used came to.
#[derive(Debug)]
pub struct Collection<'a> {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Leases on their way to being free.
    pub verdicts: &'a [Verdict],
    /// Blocks that are kept from being leased.
    pub pinned: &'a [Lease],
    /// Leases of earlier boots that were not asked for since.
    pub earlier_boots: &'a [OldLease],
    /// Category pairs without a block that may be free.
    pub category_pairs: &'a [PairVerdict],
}

/// A lease of an earlier boot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OldLease {
    /// Its holder.
    pub holder: String,
    /// Whether it was released, or would be.
    pub released: bool,
    /// What keeps it; nothing if it was not asked to be released.
    pub kept_by: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GcView<'a> {
    dry_run: bool,
    verdicts: Vec<VerdictView>,
    pinned: Vec<LeaseView>,
    earlier_boots: &'a [OldLease],
    category_pairs: Vec<PairVerdictView>,
}

impl Collection<'_> {
    /// All of it for programs.
    #[must_use]
    pub fn view(&self) -> impl Serialize {
        GcView {
            dry_run: self.dry_run,
            verdicts: self.verdicts.iter().map(VerdictView::from).collect(),
            pinned: self.pinned.iter().map(LeaseView::from).collect(),
            earlier_boots: self.earlier_boots,
            category_pairs: self.category_pairs.iter().map(PairVerdictView::from).collect(),
        }
    }

    /// All of it as text, with a line that says so if there was nothing.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for old in self.earlier_boots {
            text.push_str(&match &old.kept_by {
                Some(by) => wrapped(&format!("{}: of an earlier boot, kept: {by}", old.holder), 2),
                None if old.released => format!("{}: of an earlier boot, released\n", old.holder),
                None => format!("{}: of an earlier boot, kept\n", old.holder),
            });
        }
        let rows: Vec<_> = self
            .verdicts
            .iter()
            .map(|v| {
                let [holder, uids] = subject(&v.lease);
                [holder, uids, outcome_text(&v.outcome)]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str(&table(["HOLDER", "UIDS", "OUTCOME"], &rows));
        }
        text.push_str(&verdicts_text(self.category_pairs));
        text.push_str(&pinned_text(self.pinned));
        if text.is_empty() { "nothing to free\n".to_owned() } else { text }
    }
}

/// Each block by itself, so that it can be named to `--unpin`; each reason once.
fn pinned_text(pinned: &[Lease]) -> String {
    let mut by_note: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for lease in pinned {
        let note = lease.note.as_deref().unwrap_or("no record names the holder of these blocks");
        by_note.entry(note).or_default().push(lease.uids.to_string());
    }
    let text = by_note.iter().map(|(note, blocks)| {
        wrapped(&format!("pinned: {}", blocks.join(" ")), 2) + &wrapped(&format!("  {note}"), 2)
    });
    text.collect()
}
