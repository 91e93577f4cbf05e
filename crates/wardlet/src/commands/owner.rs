use census::Report;
use ids::witness::Hold;
use ids::{HostId, HostSpan, IdKind, UNIT};
use ledger::Lease;
use report::leases::{few, holder_name};
use report::table;
use serde::Serialize;

use super::Session;
use crate::failure::{Answer, Failure};
use crate::words;

/// All owners of one host ID.
#[derive(Serialize)]
struct Owners {
    id: HostId,
    uid: Vec<OwnerView>,
    gid: Vec<OwnerView>,
}

#[derive(Serialize)]
struct OwnerView {
    name: String,
    /// A lease's state, or `live` or `claimed`.
    hold: String,
    ids: HostSpan,
}

pub(super) fn run(session: &Session, host_id: u64) -> Result<Answer, Failure> {
    let id = HostId::try_from(host_id).map_err(|e| Failure::unknown(e.to_string()))?;
    let leases = session.node.leases()?.unwrap_or_default();
    let report = session.node.census().take()?;
    let of = |kind| owners(kind, id, &leases, &report);
    let owners = Owners { id, uid: of(IdKind::Uid), gid: of(IdKind::Gid) };
    session.format.print(&owners, || owners_table(&owners))?;
    if !owners.uid.is_empty() || !owners.gid.is_empty() {
        return Ok(Answer::Holds);
    }
    if report.blind.is_empty() {
        words::say(&format!("no owner has, uses or claims {id}"));
        return Ok(Answer::DoesNotHold);
    }
    words::warning(&format!("not everything could be seen: {}", few(&report.blind)));
    Ok(Answer::Unknown)
}

fn owners(kind: IdKind, id: HostId, leases: &[Lease], report: &Report) -> Vec<OwnerView> {
    let host = HostSpan::new(0, UNIT).ok().filter(|ids| ids.contains(id));
    let host = host.map(|ids| OwnerView { name: "the host itself".into(), hold: "claimed".into(), ids });
    let leased = leases.iter().filter_map(|lease| {
        let block = if kind == IdKind::Uid { lease.uids } else { lease.gids };
        block.span().contains(id).then(|| OwnerView {
            name: format!("lease of {}", holder_name(lease)),
            hold: lease.state_name().to_owned(),
            ids: block.span(),
        })
    });
    let seen = report.lookup(id).filter(|(of, _)| *of == kind).filter_map(|(_, owner)| {
        let ids = *owner.ids(kind).iter().find(|s| s.contains(id))?;
        let hold = match owner.hold {
            Hold::Live => "live",
            Hold::Claimed => "claimed",
        };
        Some(OwnerView { name: owner.name.clone(), hold: hold.to_owned(), ids })
    });
    host.into_iter().chain(leased).chain(seen).collect()
}

fn owners_table(owners: &Owners) -> String {
    let row =
        |kind: IdKind, o: &OwnerView| [kind.to_string(), o.hold.clone(), o.ids.to_string(), o.name.clone()];
    let uids = owners.uid.iter().map(|o| row(IdKind::Uid, o));
    let rows: Vec<_> = uids.chain(owners.gid.iter().map(|o| row(IdKind::Gid, o))).collect();
    if rows.is_empty() { String::new() } else { table(["KIND", "HOLD", "IDS", "OWNER"], &rows) }
}
