//! The two maps of a user namespace, as host IDs.

use std::fmt;

use ids::parse::proc_map::parse_proc_map;
use ids::{HostId, HostSpan, IdKind, IdMapping};
use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Maps {
    #[serde(rename = "uidMappings")]
    uids: Vec<IdMapping>,
    #[serde(rename = "gidMappings")]
    gids: Vec<IdMapping>,
}

impl Maps {
    pub(crate) fn parse(uid_map: &str, gid_map: &str) -> Result<Self, String> {
        let lines = |text| parse_proc_map(text).map_err(|e| e.to_string());
        Ok(Self { uids: lines(uid_map)?, gids: lines(gid_map)? })
    }

    fn lines(&self, kind: IdKind) -> &[IdMapping] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    /// The host IDs of one space.
    pub(crate) fn spans(&self, kind: IdKind) -> Vec<HostSpan> {
        self.lines(kind).iter().map(|line| line.host()).collect()
    }

    /// Whether a host ID is one of them.
    pub(crate) fn holds(&self, kind: IdKind, id: u32) -> bool {
        HostId::try_from(u64::from(id))
            .is_ok_and(|id| self.lines(kind).iter().any(|line| line.host().contains(id)))
    }

    /// Where the IDs of both meet, the first place.
    pub(crate) fn meets(&self, other: &Self) -> Option<(IdKind, HostSpan)> {
        [IdKind::Uid, IdKind::Gid]
            .into_iter()
            .find_map(|kind| Some((kind, self.meets_spans(kind, &other.spans(kind))?)))
    }

    /// Where its IDs of one space and these spans meet, the first place.
    pub(crate) fn meets_spans(&self, kind: IdKind, spans: &[HostSpan]) -> Option<HostSpan> {
        let mine = self.spans(kind);
        mine.iter().find_map(|a| spans.iter().find_map(|b| a.intersection(*b)))
    }

    /// Whether no ID is set apart from the host's: every one there is, mapped to itself.
    pub(crate) fn is_the_hosts(&self) -> bool {
        [&self.uids, &self.gids].into_iter().all(|lines| {
            let same = lines.iter().all(|line| line.container().get() == line.host().first());
            same && lines.iter().map(|line| line.length()).sum::<u64>() == u64::from(u32::MAX)
        })
    }

    /// The user IDs that root inside has its from, or the first ones: what is shown as the block.
    pub(crate) fn block(&self) -> Option<HostSpan> {
        self.uids.iter().min_by_key(|line| line.container()).map(|line| line.host())
    }
}

/// `uids 65536-131071`, and the groups where they differ.
impl fmt::Display for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |kind| {
            let spans: Vec<String> = self.spans(kind).iter().map(ToString::to_string).collect();
            if spans.is_empty() { "none".to_owned() } else { spans.join(",") }
        };
        let (users, groups) = (words(IdKind::Uid), words(IdKind::Gid));
        if users == groups { f.write_str(&users) } else { write!(f, "uids {users}, gids {groups}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_meet_where_they_have_ids_in_common() {
        let maps = |text: &str| Maps::parse(text, text).unwrap();
        let (one, two) = (maps("0 65536 65536\n"), maps("0 131071 10\n"));
        assert_eq!(one.meets(&two).unwrap().1.to_string(), "131071-131071");
        assert_eq!(one.meets(&maps("0 131072 65536\n")), None);
        assert!(
            one.holds(IdKind::Gid, 65_536)
                && !one.holds(IdKind::Uid, 65_535)
                && !one.holds(IdKind::Uid, u32::MAX)
        );
        assert_eq!(one.block().unwrap().to_string(), "65536-131071");
        assert!(maps("0 0 4294967295\n").is_the_hosts() && !one.is_the_hosts());
    }
}
