use census::Report;
use ids::allocator::Counts;
use report::Picture;
use report::leases::{LeaseView, leases_table, pairs_table, pool_text};

use super::Session;
use crate::failure::{Answer, Failure};
use crate::output::Format;
use crate::{time, words};

pub(super) fn run(session: &Session) -> Result<Answer, Failure> {
    let pool = session.node.pool()?;
    words::pool_notes(&pool, session.node.max_pods());
    session.node.with_existing_ledger(|ledger| {
        let (leases, counts, pairs) = match ledger {
            Some(ledger) => (ledger.list()?, ledger.counts()?, ledger.pairs()?),
            None => {
                let all = pool.capacity();
                (Vec::new(), Counts { free: all, pool: all, ..Counts::default() }, Vec::new())
            }
        };
        let others = if session.format == Format::Table { others(session) } else { Report::default() };
        let views: Vec<_> = leases.iter().map(LeaseView::from).collect();
        session.format.print(&views, || {
            let picture = Picture { pool: &pool, leases: &leases, others: &others };
            let now = time::now();
            let tables = [leases_table(&leases, now), pairs_table(&pairs, now)];
            let tables = tables.into_iter().filter(|text| !text.is_empty());
            tables.chain([pool_text(&pool, counts), picture.draw()]).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Answer::Holds)
    })
}

/// The picture is of use without the others, too.
fn others(session: &Session) -> Report {
    session.node.census().take().unwrap_or_else(|e| {
        words::warning(&format!("other users of IDs are not shown: {e}"));
        Report::default()
    })
}
