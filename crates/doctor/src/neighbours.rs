//! Other owners of host IDs, by the files of the host and by a scan of what runs on it.

use std::fmt;

use census::{Home, HostRoot, Owner, OwnerKind};
use ids::parse::subid::parse_subids;
use ids::pool::IdPool;
use ids::witness::Hold;
use ids::{BlockLength, HostSpan, IdKind, UNIT};
use node::subid::SubidSource;

use crate::ids::{USER, USUAL_PODS};

/// A user's own ID, or IDs that it may map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    name: String,
    /// Where that is written.
    place: String,
    kind: IdKind,
    ids: HostSpan,
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, place, kind, ids } = self;
        write!(f, "{kind}s {ids} of {name} ({place})")
    }
}

#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Whose entries make the pool.
    owner: String,
    users: Vec<String>,
    others: Vec<Neighbour>,
}

impl Neighbours {
    /// A missing file has no owners; the audit reports lines that cannot be parsed.
    pub(crate) fn read(host_root: &HostRoot, owner: &str) -> Self {
        let text = |file: &str| std::fs::read_to_string(host_root.path(file)).unwrap_or_default();
        let passwd = text("/etc/passwd");
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let mut others = accounts(&passwd);
        others.extend(subids(&text("/etc/subuid"), "/etc/subuid", IdKind::Uid, owner));
        others.extend(subids(&text("/etc/subgid"), "/etc/subgid", IdKind::Gid, owner));
        Self { owner: owner.to_owned(), users: passwd.lines().map(name).collect(), others }
    }

    /// Adds what a scan of the host found and no file names: user namespaces, processes with the host's users, records of
    /// other tools. Those whose IDs all lie in `known` are left out.
    pub(crate) fn add_seen(&mut self, owners: &[Owner], known: &KnownIds) {
        for owner in owners.iter().filter(|owner| is_foreign(&owner.kind)) {
            for kind in [IdKind::Uid, IdKind::Gid] {
                let foreign = owner.ids(kind).iter().filter(|ids| u64::from(ids.last()) >= UNIT);
                let foreign = foreign.filter(|ids| !known.covers(kind, **ids));
                self.others.extend(foreign.map(|ids| Neighbour {
                    name: owner.name.clone(),
                    place: if owner.hold == Hold::Live { "in use" } else { "claimed" }.to_owned(),
                    kind,
                    ids: *ids,
                }));
            }
        }
    }

    pub(crate) fn has_user(&self, name: &str) -> bool {
        self.users.iter().any(|user| user == name)
    }

    /// Those with IDs that the pool has too.
    pub(crate) fn within(&self, pool: &IdPool) -> Vec<&Neighbour> {
        let shared = |one: &&Neighbour| pool.spans(one.kind).iter().any(|span| span.overlaps(one.ids));
        self.others.iter().filter(shared).collect()
    }

    /// The command that replaces the owner's entries by ones that no other owner has.
    pub(crate) fn rewrite(&self, block: BlockLength) -> String {
        rewrite(&self.owner, &self.entry(block))
    }

    /// The command that leaves the kubelet one entry, the same in both files: the longest that it has and that is aligned and
    /// no other owner's, else a new one.
    pub(crate) fn unify(&self, entries: &SubidSource, block: BlockLength) -> String {
        let multiple = |number: u64| number.is_multiple_of(block.into());
        let usable = |ids: &HostSpan| {
            multiple(ids.first().into())
                && multiple(ids.length())
                && u64::from(ids.first()) >= UNIT
                && !self.others.iter().any(|other| other.ids.overlaps(*ids))
        };
        let ranges = entries.uids.iter().chain(&entries.gids).map(|range| range.ids);
        let entry = match ranges.filter(usable).max_by_key(|ids| ids.length()) {
            Some(ids) => format!("{USER}:{}:{}", ids.first(), ids.length()),
            None => self.entry(block),
        };
        rewrite(USER, &entry)
    }

    /// The command that adds such entries.
    pub(crate) fn addition(&self, block: BlockLength) -> String {
        format!("for f in /etc/subuid /etc/subgid; do echo {} >> $f; done", self.entry(block))
    }

    fn entry(&self, block: BlockLength) -> String {
        let length = u64::from(block) * u64::from(USUAL_PODS);
        let first = self.free(block, length).unwrap_or_else(|| UNIT.next_multiple_of(block.into()));
        format!("{}:{first}:{length}", self.owner)
    }

    /// The lowest aligned run of IDs that no other owner has.
    fn free(&self, block: BlockLength, length: u64) -> Option<u64> {
        let block = u64::from(block);
        let mut first = UNIT.next_multiple_of(block);
        loop {
            let span = HostSpan::new(first, length).ok()?;
            match self.others.iter().filter(|one| one.ids.overlaps(span)).map(|one| one.ids.end()).max() {
                Some(end) => first = end.next_multiple_of(block),
                None => return Some(first),
            }
        }
    }
}

/// IDs whose owners are known: leases of the ledger, and the blocks that a kubelet has recorded, which allocates from the
/// same pool.
#[derive(Debug, Default)]
pub(crate) struct KnownIds(Vec<(IdKind, HostSpan)>);

impl KnownIds {
    pub(crate) fn of(leases: &[ledger::Lease], owners: &[Owner]) -> Self {
        let leased = leases.iter().flat_map(|l| [(IdKind::Uid, l.uids.span()), (IdKind::Gid, l.gids.span())]);
        let records = owners.iter().filter(|owner| matches!(owner.kind, OwnerKind::KubeletRecord { .. }));
        let recorded = records.flat_map(|owner| {
            let uids = owner.uids.iter().map(|ids| (IdKind::Uid, *ids));
            uids.chain(owner.gids.iter().map(|ids| (IdKind::Gid, *ids)))
        });
        Self(leased.chain(recorded).collect())
    }

    fn covers(&self, kind: IdKind, ids: HostSpan) -> bool {
        self.0.iter().any(|(of, span)| *of == kind && span.covers(ids))
    }
}

/// Whether an owner is neither read from a file above nor part of another owner.
fn is_foreign(kind: &OwnerKind) -> bool {
    match kind {
        OwnerKind::Process { home, .. } => !matches!(home, Home::Inode(_)),
        OwnerKind::UserNamespace { .. }
        | OwnerKind::Group { .. }
        | OwnerKind::Podman { .. }
        | OwnerKind::Incus { .. } => true,
        OwnerKind::Passwd { .. }
        | OwnerKind::Subuid { .. }
        | OwnerKind::Subgid { .. }
        | OwnerKind::KubeletRecord { .. } => false,
    }
}

fn rewrite(owner: &str, entry: &str) -> String {
    format!("for f in /etc/subuid /etc/subgid; do sed -i '/^{owner}:/d' $f; echo {entry} >> $f; done")
}

fn accounts(passwd: &str) -> Vec<Neighbour> {
    let account = |(line, number): (&str, usize)| {
        let mut fields = line.split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let ids = HostSpan::new(fields.next()?.parse().ok()?, 1).ok()?;
        let place = format!("/etc/passwd line {number}");
        (u64::from(ids.first()) >= UNIT).then(|| Neighbour {
            name: format!("user {name}"),
            place,
            kind: IdKind::Uid,
            ids,
        })
    };
    passwd.lines().zip(1..).filter_map(account).collect()
}

fn subids(text: &str, file: &str, kind: IdKind, owner: &str) -> Vec<Neighbour> {
    let entries = parse_subids(text).entries.into_iter().filter(|entry| entry.owner != owner);
    let neighbour = |entry: ids::parse::subid::SubidEntry| Neighbour {
        name: format!("user {}", entry.owner),
        place: format!("{file} line {}", entry.line),
        kind,
        ids: entry.ids,
    };
    entries.map(neighbour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours(passwd: &str, subuid: &str) -> Neighbours {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/passwd"), passwd).unwrap();
        std::fs::write(dir.path().join("etc/subuid"), subuid).unwrap();
        Neighbours::read(&HostRoot::new(dir.path()), "kubelet")
    }

    #[test]
    fn the_range_that_is_offered_is_nobodys() {
        let found =
            neighbours("root:x:0:0::/:/bin/sh\nbig:x:5000000:5000000::/:/bin/sh\n", "alice:100000:65536\n");
        assert!(found.has_user("big") && !found.has_user("alice"));
        let command = found.rewrite(BlockLength::DEFAULT);
        assert!(command.contains("echo kubelet:5046272:7208960 >> $f"), "{command}");
        assert!(command.contains("sed -i '/^kubelet:/d' $f"), "{command}");
    }

    #[test]
    fn entries_of_the_pools_owner_are_no_neighbours() {
        let found = neighbours("", "kubelet:65536:655360\n");
        assert!(found.others.is_empty());
        assert!(found.addition(BlockLength::DEFAULT).contains("echo kubelet:65536:7208960 "));
    }
}
