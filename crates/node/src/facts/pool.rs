use ids::pool::IdPool;
use ids::{BlockLength, HostSpan, IdKind};
use plan::PoolFacts;

/// `allowed` is the most that the operator gives to one pod.
pub(super) fn facts(pool: &IdPool, allowed: Option<BlockLength>) -> PoolFacts {
    PoolFacts {
        length: pool.block(),
        longest: longest(pool),
        allowed,
        blocks: pool.capacity().into(),
        origin: pool.origin().to_string(),
    }
}

/// The longest block that both kinds of IDs have room for: a block is aligned to its length.
fn longest(pool: &IdPool) -> BlockLength {
    let fits = |kind, length| pool.spans(kind).into_iter().any(|span| has_room(span, length));
    let lengths = (0..32).map_while(|order| pool.block().doubled(order));
    let fitting = lengths.filter(|&l| fits(IdKind::Uid, l) && fits(IdKind::Gid, l));
    fitting.last().unwrap_or(pool.block())
}

fn has_room(span: HostSpan, length: BlockLength) -> bool {
    let length = u64::from(length);
    let base = u64::from(span.first()).next_multiple_of(length);
    base.checked_add(length).is_some_and(|end| end <= span.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_would_not_be_aligned_has_no_room() {
        let span = |first: u64, length: u64| HostSpan::new(first * 65_536, length * 65_536).unwrap();
        let length = |blocks: u64| BlockLength::try_from(blocks * 65_536).unwrap();
        assert!(has_room(span(1, 10), length(4)) && has_room(span(1, 3), length(2)));
        assert!(!has_room(span(1, 2), length(2)) && !has_room(span(1, 10), length(8)));
    }
}
