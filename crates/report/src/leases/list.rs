use ids::allocator::{Counts, State};
use ids::pool::IdPool;
use ids::{HostSpan, IdKind};
use ledger::Lease;
use types::time;

use super::holder_name;
use crate::{table, wrapped};

/// One line of the table: a lease, or several pinned blocks side by side for the same reason.
struct Line<'a> {
    lease: &'a Lease,
    uids: HostSpan,
    gids: HostSpan,
}

fn folded(leases: &[Lease]) -> Vec<Line<'_>> {
    let mut sorted: Vec<&Lease> = leases.iter().collect();
    sorted.sort_by_key(|l| l.uids);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for lease in sorted {
        let (uids, gids) = (lease.uids.span(), lease.gids.span());
        let alike = |l: &&mut Line<'_>| {
            lease.state == State::Pinned
                && l.lease.state == State::Pinned
                && l.lease.note == lease.note
                && l.lease.holder == lease.holder
        };
        let grown = lines.last_mut().filter(alike).and_then(|line| {
            (line.uids, line.gids) = (joined(line.uids, uids)?, joined(line.gids, gids)?);
            Some(())
        });
        if grown.is_none() {
            lines.push(Line { lease, uids, gids });
        }
    }
    lines
}

fn joined(a: HostSpan, b: HostSpan) -> Option<HostSpan> {
    (a.end() == u64::from(b.first()))
        .then(|| HostSpan::new(a.first().into(), a.length() + b.length()).ok())?
}

/// All leases, with their ages at `now`. Notes are sentences: they stand below the table, each once.
#[must_use]
pub fn leases_table(leases: &[Lease], now: u64) -> String {
    if leases.is_empty() {
        return "no leases\n".to_owned();
    }
    let mut notes: Vec<&str> = Vec::new();
    let rows: Vec<[String; 7]> = folded(leases)
        .iter()
        .map(|line| {
            let note = line.lease.note.as_deref().map(|note| number_of(&mut notes, note));
            [
                holder_name(line.lease),
                line.lease.state_name().to_owned(),
                line.uids.to_string(),
                if line.gids == line.uids { "same".to_owned() } else { line.gids.to_string() },
                line.uids.length().to_string(),
                time::age(line.lease.since, now),
                note.map(|n| format!("[{n}]")).unwrap_or_default(),
            ]
        })
        .collect();
    let mut text = table(["HOLDER", "STATE", "UIDS", "GIDS", "SIZE", "SINCE", "NOTE"], &rows);
    for (note, number) in notes.iter().zip(1..) {
        text.push_str(&wrapped(&format!("[{number}] {note}"), 4));
    }
    text
}

fn number_of<'a>(notes: &mut Vec<&'a str>, note: &'a str) -> usize {
    let known = notes.iter().position(|n| *n == note);
    let index = known.unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    index + 1
}

/// The pool's ranges, and how many of its blocks are in which state.
#[must_use]
pub fn pool_text(pool: &IdPool, counts: Counts) -> String {
    let ranges = |kind| pool.spans(kind).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut text = wrapped(&format!("pool: {}", pool.origin()), 2);
    if pool.joint() {
        text.push_str(&wrapped(&format!("  uids and gids {}", ranges(IdKind::Uid)), 4));
    } else {
        text.push_str(&wrapped(&format!("  uids {}", ranges(IdKind::Uid)), 4));
        text.push_str(&wrapped(&format!("  gids {}", ranges(IdKind::Gid)), 4));
    }
    let Counts { leased, draining, quarantined, pinned, free, pool: all } = counts;
    text.push_str(&format!("  {all} blocks of {} IDs, {free} free\n", pool.block()));
    text.push_str(&format!(
        "leases: {leased} leased, {draining} draining, {quarantined} quarantined, {pinned} pinned\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use ids::IdBlock;
    use ids::allocator::LeaseId;
    use ledger::Tenure;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn pinned(base: u64, note: &str) -> Lease {
        let block = IdBlock::new(base, 65_536).unwrap();
        Lease {
            id: LeaseId(base),
            holder: None,
            state: State::Pinned,
            uids: block,
            gids: block,
            members: None,
            tenure: Tenure::Durable,
            since: NOW,
            earlier_boot: false,
            places: vec![],
            categories: None,
            note: Some(note.to_owned()),
        }
    }

    #[test]
    fn pinned_blocks_side_by_side_for_one_reason_are_one_line() {
        let leases = [pinned(131_072, "lost"), pinned(65_536, "lost"), pinned(196_608, "other")];
        let text = leases_table(&leases, NOW);
        assert_eq!(
            text,
            "HOLDER  STATE   UIDS           GIDS  SIZE    SINCE  NOTE\n\
             (none)  pinned  65536-196607   same  131072  <1m    [1]\n\
             (none)  pinned  196608-262143  same  65536   <1m    [2]\n\
             [1] lost\n[2] other\n"
        );
    }
}
