use std::fmt;

use ids::{HostId, IdBlock, IdKind, IdMapping};
use serde::Serialize;

/// The two maps of a user namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct IdMaps {
    /// The lines for user IDs.
    pub uids: Vec<IdMapping>,
    /// The lines for group IDs.
    pub gids: Vec<IdMapping>,
}

impl IdMaps {
    /// These lines; whether they make sense together is the kernel's to say.
    #[must_use]
    pub fn new(uids: &[IdMapping], gids: &[IdMapping]) -> Self {
        Self { uids: uids.to_vec(), gids: gids.to_vec() }
    }

    /// A whole block from 0 up, for users and groups alike.
    #[must_use]
    pub fn of_block(block: IdBlock) -> Self {
        let line = IdMapping::of_block(block);
        Self { uids: vec![line], gids: vec![line] }
    }

    pub(crate) fn lines(&self, kind: IdKind) -> &[IdMapping] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    /// The host ID of root inside, or of the first user inside where root is not mapped.
    pub(crate) fn first_user(&self) -> Option<HostId> {
        let first = self.uids.iter().min_by_key(|line| line.container())?;
        HostId::try_from(u64::from(first.host().first())).ok()
    }

    /// Whether both map the same IDs to the same: the kernel may put lines into another order.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let sorted = |lines: &[IdMapping]| {
            let mut lines = lines.to_vec();
            lines.sort_by_key(|line| line.container());
            lines
        };
        [IdKind::Uid, IdKind::Gid]
            .into_iter()
            .all(|kind| sorted(self.lines(kind)) == sorted(other.lines(kind)))
    }
}

/// `0:65536:65536`, container then host ID and the length; both maps where they differ.
impl fmt::Display for IdMaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.uids))?;
        if self.uids == self.gids { Ok(()) } else { write!(f, " and groups {}", words(&self.gids)) }
    }
}

fn words(lines: &[IdMapping]) -> String {
    let line = |line: &IdMapping| format!("{}:{}:{}", line.container(), line.host().first(), line.length());
    lines.iter().map(line).collect::<Vec<_>>().join(",")
}

/// What is written to uid_map or gid_map.
pub(super) fn text(lines: &[IdMapping]) -> String {
    lines.iter().map(|m| format!("{} {} {}\n", m.container(), m.host().first(), m.length())).collect()
}

/// What is read from there.
pub(super) fn parse(text: &str) -> Option<Vec<IdMapping>> {
    let line = |line: &str| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        IdMapping::new(next()?, next()?, next()?).ok()
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<IdMapping> {
        vec![IdMapping::new(0, 65_536, 10).unwrap(), IdMapping::new(10, 131_072, 5).unwrap()]
    }

    #[test]
    fn a_map_is_written_as_container_host_length_and_read_so() {
        assert_eq!(text(&lines()), "0 65536 10\n10 131072 5\n");
        assert_eq!(
            parse("         0      65536         10\n        10     131072          5\n"),
            Some(lines())
        );
        assert_eq!(parse("0 65536\n"), None);
    }

    #[test]
    fn the_order_of_lines_makes_no_other_map() {
        let reversed: Vec<IdMapping> = lines().into_iter().rev().collect();
        let maps = IdMaps::new(&lines(), &reversed);
        assert!(maps.same(&IdMaps::new(&reversed, &lines())));
        assert!(!maps.same(&IdMaps::new(&reversed, &reversed[..1])));
        assert_eq!(maps.first_user().unwrap().get(), 65_536);
        let shown = "0:65536:10,10:131072:5 and groups 10:131072:5,0:65536:10";
        assert_eq!(maps.to_string(), shown);
    }
}
