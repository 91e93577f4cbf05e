use ids::{ContainerId, HostId, HostSpan, IdKind, IdMapping, UserNamespace};
use serde::{Deserialize, Serialize};

/// Which way IDs are shifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the container's numbers to the block's.
    Give,
    /// From the block's numbers to the container's.
    Back,
}

/// A map and the way it is gone. No ID is on both sides: an owner alone tells whether it was shifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shift {
    pub(crate) direction: Direction,
    uids: Vec<IdMapping>,
    gids: Vec<IdMapping>,
}

/// What an ID becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another one.
    Becomes(u32),
    /// It is one of the other side already.
    Stays,
    /// It is on no side.
    Outside,
}

/// Why there is no such shift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoShift {
    NoMap,
    Overlap(IdKind, HostSpan),
}

impl Shift {
    pub(crate) fn new(namespace: &UserNamespace, direction: Direction) -> Result<Self, NoShift> {
        let lines = |kind| namespace.lines(kind).ok_or(NoShift::NoMap);
        let shift = Self { direction, uids: lines(IdKind::Uid)?, gids: lines(IdKind::Gid)? };
        shift.checked()
    }

    /// Also for one that was read from a file.
    pub(crate) fn checked(self) -> Result<Self, NoShift> {
        for kind in [IdKind::Uid, IdKind::Gid] {
            for inside in self.lines(kind).iter().map(|line| container_side(*line)) {
                for outside in self.lines(kind).iter().map(|line| line.host()) {
                    if let Some(both) = inside.and_then(|inside| inside.intersection(outside)) {
                        return Err(NoShift::Overlap(kind, both));
                    }
                }
            }
        }
        Ok(self)
    }

    pub(crate) fn towards(&self, direction: Direction) -> Self {
        Self { direction, ..self.clone() }
    }

    pub(crate) fn same_map(&self, other: &Self) -> bool {
        (&self.uids, &self.gids) == (&other.uids, &other.gids)
    }

    fn lines(&self, kind: IdKind) -> &[IdMapping] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    pub(crate) fn fate(&self, kind: IdKind, id: u32) -> Fate {
        let to_block = self.lines(kind).iter().find_map(|line| inside_out(*line, id));
        let to_container = self.lines(kind).iter().find_map(|line| outside_in(*line, id));
        match (self.direction, to_block, to_container) {
            (Direction::Give, Some(id), _) | (Direction::Back, _, Some(id)) => Fate::Becomes(id),
            (Direction::Give, None, Some(_)) | (Direction::Back, Some(_), None) => Fate::Stays,
            (_, None, None) => Fate::Outside,
        }
    }

    /// The side that IDs come from, as text.
    pub(crate) fn source(&self) -> &'static str {
        match self.direction {
            Direction::Give => "container's",
            Direction::Back => "block's",
        }
    }
}

fn container_side(line: IdMapping) -> Option<HostSpan> {
    HostSpan::new(line.container().into(), line.length()).ok()
}

fn inside_out(line: IdMapping, id: u32) -> Option<u32> {
    let offset = id.checked_sub(line.container().get())?;
    let host = u64::from(line.host().first()).checked_add(offset.into())?;
    (u64::from(offset) < line.length()).then(|| HostId::try_from(host).ok().map(HostId::get))?
}

fn outside_in(line: IdMapping, id: u32) -> Option<u32> {
    let offset = u64::from(id).checked_sub(line.host().first().into())?;
    let inside = u64::from(line.container()).checked_add(offset)?;
    (offset < line.length()).then(|| ContainerId::try_from(inside).ok().map(ContainerId::get))?
}

#[cfg(test)]
mod tests {
    use ids::{CallerMapping, IdBlock};

    use super::*;

    fn leased() -> UserNamespace {
        let uids = IdBlock::new(131_072, 65_536).unwrap();
        let gids = IdBlock::new(196_608, 65_536).unwrap();
        UserNamespace::Leased { uids, gids }
    }

    #[test]
    fn an_id_is_shifted_once_and_then_stays() {
        let give = Shift::new(&leased(), Direction::Give).unwrap();
        assert_eq!(give.fate(IdKind::Uid, 1000), Fate::Becomes(132_072));
        assert_eq!(give.fate(IdKind::Uid, 132_072), Fate::Stays);
        assert_eq!(give.fate(IdKind::Gid, 1000), Fate::Becomes(197_608));
        for outside in [65_536, 131_071, 196_608, u32::MAX] {
            assert_eq!(give.fate(IdKind::Uid, outside), Fate::Outside);
        }
        let back = give.towards(Direction::Back);
        assert_eq!(back.fate(IdKind::Uid, 132_072), Fate::Becomes(1000));
        assert_eq!(back.fate(IdKind::Uid, 1000), Fate::Stays);
        assert_eq!(back.fate(IdKind::Gid, 196_608), Fate::Becomes(0));
    }

    #[test]
    fn a_map_with_an_id_on_both_sides_is_refused() {
        let line = IdMapping::new(0, 1000, 100_000).unwrap();
        let both = UserNamespace::Caller(CallerMapping::new(vec![line], vec![line]).unwrap());
        let overlap = HostSpan::new(1000, 99_000).unwrap();
        assert_eq!(Shift::new(&both, Direction::Give), Err(NoShift::Overlap(IdKind::Uid, overlap)));
        assert_eq!(Shift::new(&UserNamespace::Host, Direction::Give), Err(NoShift::NoMap));
    }

    #[test]
    fn what_is_shifted_is_what_the_user_namespace_says() {
        let give = Shift::new(&leased(), Direction::Give).unwrap();
        for id in [0u32, 1, 999, 65_535] {
            let inside = ContainerId::try_from(u64::from(id)).unwrap();
            let host = leased().to_host(IdKind::Gid, Some(inside)).unwrap().unwrap();
            assert_eq!(give.fate(IdKind::Gid, id), Fate::Becomes(host.get()));
        }
    }
}
