use ids::{ContainerId, HostId, IdKind, IdOutOfRange, Unmapped, UserNamespace};
use serde::Serialize;

use super::Session;
use crate::cli::TranslateArgs;
use crate::failure::{Answer, Failure};

#[derive(Serialize)]
struct Translated {
    uid: Option<u32>,
    gid: Option<u32>,
}

/// One ID in, and what it is on the other side.
struct Pair {
    kind: IdKind,
    given: Option<u64>,
    found: Result<Option<u32>, Unmapped>,
}

pub(super) fn run(session: &Session, args: &TranslateArgs) -> Result<Answer, Failure> {
    let lease = session.node.with_existing_ledger::<_, Failure>(|ledger| match ledger {
        Some(ledger) => Ok(ledger.get(args.holder.clone())?),
        None => Ok(None),
    })?;
    let lease = lease.ok_or_else(|| {
        Failure::unknown(format!("{} has no lease", args.holder))
            .with_hint("`wardlet ids list` shows all leases")
    })?;
    let namespace = lease.user_namespace();
    let pairs = [(IdKind::Uid, args.uid), (IdKind::Gid, args.gid)];
    let pairs =
        pairs.map(|(kind, given)| Ok(Pair { kind, given, found: translate(&namespace, kind, given, args)? }));
    let [uid, gid] = pairs;
    let pairs = [uid.map_err(not_an_id)?, gid.map_err(not_an_id)?];
    print(session, &pairs)?;
    match pairs.iter().find_map(|p| p.found.err()) {
        None => Ok(Answer::Holds),
        Some(unmapped) => Err(Failure::refused(unmapped.to_string()).with_hint(format!(
            "{} has {} IDs inside, 0-{}: on the host uids {}, gids {}",
            args.holder,
            lease.uids.length(),
            lease.uids.length().get() - 1,
            lease.uids,
            lease.gids
        ))),
    }
}

fn not_an_id(e: IdOutOfRange) -> Failure {
    Failure::unknown(e.to_string())
}

fn translate(
    namespace: &UserNamespace,
    kind: IdKind,
    given: Option<u64>,
    args: &TranslateArgs,
) -> Result<Result<Option<u32>, Unmapped>, IdOutOfRange> {
    if args.reverse {
        let id = given.map(HostId::try_from).transpose()?;
        return Ok(namespace.to_container(kind, id).map(|id| id.map(ContainerId::get)));
    }
    let id = given.map(ContainerId::try_from).transpose()?;
    Ok(namespace.to_host(kind, id).map(|id| id.map(HostId::get)))
}

fn print(session: &Session, pairs: &[Pair; 2]) -> Result<(), Failure> {
    let [uid, gid] = pairs;
    let number = |pair: &Pair| pair.found.ok().flatten();
    let line = |pair: &Pair| match (pair.given, number(pair)) {
        (Some(given), Some(found)) => format!("{} {given} -> {found}\n", pair.kind),
        _ => String::new(),
    };
    session.format.print(&Translated { uid: number(uid), gid: number(gid) }, || line(uid) + &line(gid))
}
