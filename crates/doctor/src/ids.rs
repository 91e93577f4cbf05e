//! The pool of host IDs, other owners of IDs on the host, and the ledger.

use ids::IdKind;
use ids::allocator::Counts;
use ids::pool::{IdPool, PoolOrigin};
use ledger::Ledger;
use node::Node;
use node::subid::{self, SubidRange};

use crate::check::{Check, Desk, Evidence, Fault, Group};
use crate::neighbours::{KnownIds, Neighbours};

const DESK: Desk = Desk::new(Group::Ids, Evidence::Files);

/// The kubelet's default of `maxPods`.
pub(crate) const USUAL_PODS: u32 = 110;

/// The user whose entries a kubelet reads.
pub(crate) const USER: &str = "kubelet";
const GETSUBIDS: &str = "/usr/bin/getsubids";

pub(crate) fn checks(node: &Node) -> Vec<Check> {
    let mut neighbours =
        Neighbours::read(node.host_root(), &node.config.settings.user_namespaces.subid_owner);
    let unseen = add_seen(node, &mut neighbours);
    let pool = node.pool();
    let mut checks = vec![pool_check(node, &pool, &neighbours)];
    if let Ok(pool) = &pool {
        checks.push(room(node, pool));
        checks.push(neighbourhood(pool, &neighbours, unseen));
        checks.push(agreement(node, pool, &neighbours));
        checks.extend(one_range(node, pool, &neighbours));
        checks.push(ledger(node));
    }
    checks
}

/// Adds the owners that a scan of the host finds; what could not be seen, if anything.
fn add_seen(node: &Node, neighbours: &mut Neighbours) -> Option<Fault> {
    let report = match node.census().take() {
        Ok(report) => report,
        Err(error) => return Some(Fault::new(error.to_string(), error.hint())),
    };
    let leases = match node.leases() {
        Ok(leases) => leases.unwrap_or_default(),
        Err(error) => return Some(Fault::new(error.to_string(), "see the check of the ledger")),
    };
    neighbours.add_seen(&report.owners, &KnownIds::of(&leases, &report.owners));
    let first = report.blind.first()?;
    let fix = "run it as root; `wardlet ids audit` shows all that could not be seen";
    Some(Fault::new(format!("could not be seen: {first}"), fix))
}

fn pool_check(node: &Node, pool: &Result<IdPool, node::Error>, neighbours: &Neighbours) -> Check {
    let need = "there is a pool of host IDs to give out";
    match pool {
        Ok(pool) => DESK.holds(need, format!("{} ({})", spans(pool), pool.origin())),
        Err(error) => {
            let hint = error.hint().unwrap_or_else(|| "see docs/how-to/choose-the-pool.md".to_owned());
            let fix = match node.config.settings.user_namespaces.pool.uids {
                Some(_) => hint,
                None => format!(
                    "{hint}; {}",
                    neighbours.rewrite(node.config.settings.user_namespaces.ids_per_pod)
                ),
            };
            DESK.fails(need, "none", Fault::new(error.to_string(), fix))
        }
    }
}

fn spans(pool: &IdPool) -> String {
    let of = |kind| pool.spans(kind).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (uids, gids) = (of(IdKind::Uid), of(IdKind::Gid));
    if uids == gids { uids } else { format!("users {uids}; groups {gids}") }
}

fn room(node: &Node, pool: &IdPool) -> Check {
    let pods = node.max_pods().unwrap_or(USUAL_PODS);
    let need = format!("the pool has a block for each of {pods} pods");
    let found = format!("{} blocks of {} IDs", pool.capacity(), pool.block());
    if pool.capacity() >= pods {
        return DESK.holds(need, found);
    }
    let cause =
        "when all are taken, the next pod does not start; a kubelet with such entries does not start at all";
    let longer = u64::from(pods) * u64::from(pool.block());
    let fix = format!(
        "give the pool {longer} IDs (see `wardlet config`), or set userNamespaces.maxPods to {}",
        pool.capacity()
    );
    DESK.fails(need, found, Fault::new(cause, fix)).useful()
}

/// The ledger does not lease blocks that other owners use or claim, so an overlap does no harm to pods.
fn neighbourhood(pool: &IdPool, neighbours: &Neighbours, unseen: Option<Fault>) -> Check {
    let need = "no other owner has IDs of the pool";
    let within = neighbours.within(pool);
    let Some(first) = within.first() else {
        return match unseen {
            Some(fault) => DESK.open(need, fault).useful(),
            None => DESK.holds(need, "none").useful(),
        };
    };
    let found = match within.len() {
        1 => first.to_string(),
        many => format!("{first} and {} more", many - 1),
    };
    if *pool.origin() == PoolOrigin::Default {
        return DESK.holds(need, format!("{found}: wardlet does not lease these blocks")).useful();
    }
    let cause = format!("{first} is given out twice: wardlet does not lease its blocks, a kubelet does");
    let fix = format!("move one of them; {}", neighbours.rewrite(pool.block()));
    DESK.fails(need, found, Fault::new(cause, fix)).useful()
}

/// A kubelet on this node reads the same files in another way.
fn agreement(node: &Node, pool: &IdPool, neighbours: &Neighbours) -> Check {
    let need = "a kubelet here would take the same IDs";
    let getsubids = node.host_root().path(GETSUBIDS).exists();
    let of_kubelet = matches!(pool.origin(), PoolOrigin::Subids { owner } if owner == USER);
    let found = format!(
        "user {USER} {}, getsubids {}",
        if neighbours.has_user(USER) { "there" } else { "not there" },
        if getsubids { "there" } else { "not there" }
    );
    let fault = match (neighbours.has_user(USER), getsubids, of_kubelet) {
        (true, false, _) => Fault::new(
            format!("a kubelet that finds a user {USER} and no getsubids does not start"),
            "apt-get install uidmap (or: dnf install shadow-utils-subid)",
        ),
        (false, _, true) => Fault::new(
            format!(
                "without a user {USER} a kubelet does not look at its entries and gives out everything from 65536 up"
            ),
            format!("useradd --system --no-create-home --shell /usr/sbin/nologin {USER}"),
        ),
        (true, true, false) if *pool.origin() == PoolOrigin::Default => Fault::new(
            format!(
                "user {USER} has no entries in /etc/subuid and /etc/subgid: a kubelet that asks getsubids for them does not start"
            ),
            neighbours.addition(pool.block()),
        ),
        _ => return DESK.holds(need, found).useful(),
    };
    DESK.fails(need, found, fault).useful()
}

/// A kubelet takes what getsubids prints only if it is one line, and the same for users and groups.
fn one_range(node: &Node, pool: &IdPool, neighbours: &Neighbours) -> Option<Check> {
    let entries = subid::discover(node.host_root(), Some(USER)).ok()??;
    let need = format!("{USER} has one line in /etc/subuid and the same in /etc/subgid");
    let shown = |ranges: &[SubidRange]| {
        let each = ranges.iter().map(|range| format!("{} ({})", range.ids, range.origin));
        each.collect::<Vec<_>>().join(", ")
    };
    let found = format!("{}; {}", shown(&entries.uids), shown(&entries.gids));
    let cause = match (entries.uids.as_slice(), entries.gids.as_slice()) {
        ([uids], [gids]) if uids.ids == gids.ids => return Some(DESK.holds(need, found).useful()),
        ([_], [_]) => format!("a kubelet does not start where user and group IDs of {USER} differ"),
        _ => format!("a kubelet does not start where {USER} has several lines: it takes one range only"),
    };
    let fault = Fault::new(cause, neighbours.unify(&entries, pool.block()));
    Some(DESK.fails(need, found, fault).useful())
}

fn ledger(node: &Node) -> Check {
    let need = format!("the ledger in {} can be used", node.state_dir().display());
    if !Ledger::exists(node.state_dir()) {
        return DESK.holds(need, "none yet: the first lease makes it");
    }
    let counts = |ledger: Option<&Ledger>| Ok(ledger.map(Ledger::counts).transpose()?);
    match node.with_existing_ledger::<_, node::Error>(counts) {
        Ok(Some(counts)) => DESK.holds(need, shown(counts)),
        Ok(None) => DESK.holds(need, "none yet: the first lease makes it"),
        Err(error) => {
            let fix = error.hint().unwrap_or_else(|| "wardlet ids list".to_owned());
            DESK.open(need, Fault::new(error.to_string(), fix))
        }
    }
}

fn shown(counts: Counts) -> String {
    let Counts { leased, draining, quarantined, pinned, free, pool } = counts;
    format!(
        "{leased} leased, {draining} draining, {quarantined} resting, {pinned} pinned, {free} of {pool} free"
    )
}
