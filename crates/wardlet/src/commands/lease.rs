use ids::BlockLength;
use ids::allocator::size_error;
use ids::pool::IdPool;
use ledger::{Categories, LeaseRequest, LedgerError, Tenure, kubelet};
use report::leases::{LeaseView, lease_text};

use super::Session;
use crate::cli::LeaseArgs;
use crate::failure::{Answer, Failure};
use crate::words;

pub(super) fn run(session: &Session, args: &LeaseArgs) -> Result<Answer, Failure> {
    let pool = session.node.pool()?;
    let request = request(args, &pool)?;
    words::pool_notes(&pool, session.node.max_pods());
    session.node.with_ledger(|ledger| {
        let lease = match &args.shared {
            Some(shared) => ledger.join(shared.clone(), request)?,
            None => ledger.lease(request)?,
        };
        session.format.print(&LeaseView::from(&lease), || lease_text(&lease))?;
        if args.write_record {
            let written = kubelet::write_record(&session.node.kubelet_pods(), &args.holder, &lease);
            let path = written.map_err(|why| {
                Failure::refused(format!("{} has its lease, but no kubelet record: {why}", args.holder))
            })?;
            words::note(&format!("wrote {}", path.display()));
        }
        Ok(Answer::Holds)
    })
}

fn request(args: &LeaseArgs, pool: &IdPool) -> Result<LeaseRequest, Failure> {
    let length = |ids: u64| {
        BlockLength::try_from(ids).map_err(|_| LedgerError::Lease {
            holder: args.holder.clone(),
            source: size_error(pool.block(), ids),
        })
    };
    Ok(LeaseRequest {
        length: args.ids.map(length).transpose()?,
        tenure: if args.until_reboot { Tenure::UntilReboot } else { Tenure::Durable },
        places: args.places.clone(),
        categories: if args.categories { Categories::Pair } else { Categories::None },
        ..LeaseRequest::new(args.holder.clone())
    })
}
