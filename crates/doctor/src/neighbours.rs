//! Other owners of host IDs, by the files of the host.

use std::fmt;

use census::HostRoot;
use ids::parse::subid::parse_subids;
use ids::pool::IdPool;
use ids::{BlockLength, HostSpan, IdKind, UNIT};

use crate::ids::USUAL_PODS;

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
        let Self { owner, .. } = self;
        format!(
            "for f in /etc/subuid /etc/subgid; do sed -i '/^{owner}:/d' $f; echo {} >> $f; done",
            self.entry(block)
        )
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
