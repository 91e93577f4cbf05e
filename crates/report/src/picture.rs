//! The ID space drawn in 80 columns.

use census::Report;
use ids::allocator::State;
use ids::pool::IdPool;
use ids::{HostSpan, IdKind, UNIT};
use ledger::Lease;

const COLUMNS: u64 = 64;
const ROWS: u64 = 4;
const LEGEND: &str = "  H host  - outside the pool  . free  L leased  d draining  q quarantined\n  \
                      P pinned  x used or claimed by others\n";

/// The host ID space: the node's pool, the ledger's leases and what the census found of other owners.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The pool that blocks are leased from.
    pub pool: &'a IdPool,
    /// The leases of the ledger, in any order.
    pub leases: &'a [Lease],
    /// IDs that others use or claim; empty if the census could not be taken.
    pub others: &'a Report,
}

/// What a cell shows; of several things in its IDs, the last of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Outside,
    Free,
    Others,
    Quarantined,
    Draining,
    Pinned,
    Leased,
    Host,
}

impl Cell {
    fn glyph(self) -> char {
        match self {
            Self::Outside => '-',
            Self::Free => '.',
            Self::Others => 'x',
            Self::Quarantined => 'q',
            Self::Draining => 'd',
            Self::Pinned => 'P',
            Self::Leased => 'L',
            Self::Host => 'H',
        }
    }

    fn of(state: State) -> Self {
        match state {
            State::Leased => Self::Leased,
            State::Draining => Self::Draining,
            State::Quarantined { .. } => Self::Quarantined,
            State::Pinned => Self::Pinned,
        }
    }
}

type Painted = (Cell, HostSpan);

impl Picture<'_> {
    /// Rows of cells, each row behind its first ID; one bar for each kind of ID, or one for both if the pool is joint.
    pub fn draw(&self) -> String {
        let kinds: &[(IdKind, &str)] = if self.pool.joint() {
            &[(IdKind::Uid, "user and group IDs")]
        } else {
            &[(IdKind::Uid, "user IDs"), (IdKind::Gid, "group IDs")]
        };
        let bars = kinds.iter().map(|(kind, title)| self.bar(*kind, title));
        bars.collect::<String>() + LEGEND
    }

    fn bar(&self, kind: IdKind, title: &str) -> String {
        let painted = self.painted(kind);
        let pool_spans = self.pool.spans(kind);
        let last_run = pool_spans.last().map_or((0, UNIT), |s| (u64::from(s.first()), s.end()));
        let held = painted.iter().filter(|(cell, _)| *cell > Cell::Free).map(|(_, span)| span.end());
        // Behind this everything is free, up to the end of the pool.
        let interest = held.max().unwrap_or(UNIT).max(last_run.0);
        let length = cell_length(self.pool, interest);
        let interest = interest.max(last_run.1.min(COLUMNS * length));
        let cells = interest.div_ceil(length);
        let mut text = format!("{title}, {length} in each cell:\n");
        for row in 0..cells.div_ceil(COLUMNS) {
            let columns = (row * COLUMNS..cells.min((row + 1) * COLUMNS)).map(|i| glyph(&painted, i, length));
            text.push_str(&format!("{:>12} {}\n", row * COLUMNS * length, columns.collect::<String>()));
        }
        if last_run.1 > cells * length {
            text.push_str(&format!("{:>12} free up to {}\n", cells * length, last_run.1 - 1));
        }
        text
    }

    fn painted(&self, kind: IdKind) -> Vec<Painted> {
        let block = |l: &Lease| if kind == IdKind::Uid { l.uids.span() } else { l.gids.span() };
        // One bar for both kinds shows what others have of either.
        let shown = |k: &IdKind| *k == kind || self.pool.joint();
        let kinds: Vec<IdKind> = [IdKind::Uid, IdKind::Gid].into_iter().filter(shown).collect();
        let others = self.others.owners.iter();
        let others = others.flat_map(|o| kinds.iter().flat_map(|k| o.ids(*k))).map(|s| (Cell::Others, *s));
        let pool = self.pool.spans(kind).into_iter().map(|s| (Cell::Free, s));
        let leases = self.leases.iter().map(|l| (Cell::of(l.state), block(l)));
        let host = HostSpan::new(0, UNIT).ok().map(|s| (Cell::Host, s));
        pool.chain(others).chain(leases).chain(host).collect()
    }
}

/// The node's block length, doubled until everything up to `end` fits.
fn cell_length(pool: &IdPool, end: u64) -> u64 {
    let mut length = u64::from(pool.block());
    while end.div_ceil(length) > COLUMNS * ROWS {
        length *= 2;
    }
    length
}

fn glyph(painted: &[Painted], index: u64, length: u64) -> char {
    let (first, end) = (index * length, (index + 1) * length);
    let inside = painted.iter().filter(|(_, s)| u64::from(s.first()) < end && first < s.end());
    inside.map(|(cell, _)| *cell).max().unwrap_or(Cell::Outside).glyph()
}

#[cfg(test)]
mod tests {
    use ids::BlockLength;

    use super::*;

    fn drawn(pool: &IdPool, others: Vec<(u64, u64)>) -> Vec<String> {
        let owner = |(first, length): (u64, u64)| census::Owner {
            kind: census::OwnerKind::Incus { instance: "c1".into() },
            name: "c1".into(),
            hold: ids::witness::Hold::Claimed,
            uids: vec![],
            gids: vec![HostSpan::new(first, length).unwrap()],
        };
        let others = Report { owners: others.into_iter().map(owner).collect(), ..Report::default() };
        let text = Picture { pool, leases: &[], others: &others }.draw();
        assert!(text.lines().all(|l| l.len() <= crate::WIDTH), "{text}");
        text.lines().filter(|l| !l.starts_with("  P") && !l.starts_with("  H")).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_left_out_is_free_even_where_the_pool_has_holes() {
        let hole = HostSpan::new(65_536 * 100, 65_536 * 2).unwrap();
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![hole]).unwrap();
        assert_eq!(
            drawn(&pool, vec![]),
            [
                "user and group IDs, 65536 in each cell:".to_owned(),
                format!("           0 H{}", ".".repeat(63)),
                format!("     4194304 {}--", ".".repeat(36)),
                "     6684672 free up to 4294901759".to_owned(),
            ]
        );
    }

    #[test]
    fn a_space_used_to_its_end_still_fits_and_shows_everybody() {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let lines = drawn(&pool, vec![(4_000_000_000, 1), (4_294_901_000, 5)]);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "user and group IDs, 16777216 in each cell:");
        assert_eq!(lines.iter().map(|l| l.matches('x').count()).sum::<usize>(), 2, "{lines:?}");
        assert!(lines[4].ends_with('x'), "{lines:?}");
    }
}
