//! All pairs that have IDs in common, in less than quadratic time.

use ids::{HostSpan, IdKind};

use super::party::Party;

/// Two parties and the spans by which they meet, in the order of the parties.
pub(super) struct Pair<'a> {
    pub(super) kind: IdKind,
    pub(super) a: Side<Party<'a>>,
    pub(super) b: Side<Party<'a>>,
    /// What the two spans share.
    pub(super) ids: HostSpan,
    pub(super) places: (usize, usize),
}

/// A party of a pair, with the span by which it meets the other.
#[derive(Clone, Copy)]
pub(super) struct Side<P> {
    pub(super) party: P,
    pub(super) span: HostSpan,
}

/// Every pair of spans of different parties that overlap.
pub(super) fn overlapping<'a>(parties: &[Party<'a>], kind: IdKind) -> Vec<Pair<'a>> {
    let mut spans: Vec<(HostSpan, usize, Party<'a>)> = parties
        .iter()
        .enumerate()
        .flat_map(|(place, party)| party.ids(kind).map(move |span| (span, place, *party)))
        .collect();
    spans.sort_by_key(|(span, place, _)| (*span, *place));
    let mut pairs = Vec::new();
    let mut open: Vec<(HostSpan, usize, Party<'a>)> = Vec::new();
    for (span, place, party) in spans {
        open.retain(|(earlier, ..)| earlier.overlaps(span));
        for (earlier, at, other) in &open {
            if let Some(ids) = earlier.intersection(span).filter(|_| *at != place) {
                let early = (*at, Side { party: *other, span: *earlier });
                let late = (place, Side { party, span });
                let (a, b) = if at < &place { (early, late) } else { (late, early) };
                pairs.push(Pair { kind, a: a.1, b: b.1, ids, places: (a.0, b.0) });
            }
        }
        open.push((span, place, party));
    }
    pairs
}
