use serde::{Deserialize, Serialize};

use crate::block::IdBlock;
use crate::id::{ContainerId, HostId, IdKind};
use crate::span::{HostSpan, SpanError};

/// One line of a user namespace's map: `length` IDs from `containerId` are `length` from `hostId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawMapping", into = "RawMapping")]
pub struct IdMapping {
    host: HostSpan,
    container: ContainerId,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawMapping {
    host_id: u64,
    container_id: u64,
    length: u64,
}

/// Why a map cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The host side of a line is no run of IDs.
    #[error("host side: {0}")]
    Host(SpanError),
    /// The container side of a line is no run of IDs.
    #[error("container side: {0}")]
    Container(SpanError),
    /// Two lines give one container ID two meanings.
    #[error("container IDs {0} are mapped twice")]
    ContainerTwice(HostSpan),
    /// Two lines give one host ID two meanings.
    #[error("host IDs {0} are mapped twice")]
    HostTwice(HostSpan),
    /// No line at all.
    #[error("a user namespace needs at least one {0} mapping")]
    Empty(IdKind),
}

impl IdMapping {
    /// The map of `length` IDs from `container` inside to `host` outside.
    pub fn new(container: u64, host: u64, length: u64) -> Result<Self, MappingError> {
        let inside = HostSpan::new(container, length).map_err(MappingError::Container)?;
        let host = HostSpan::new(host, length).map_err(MappingError::Host)?;
        let container = ContainerId::try_from(u64::from(inside.first()))
            .map_err(|_| MappingError::Container(SpanError::PastTheEnd { first: container, length }))?;
        Ok(Self { host, container })
    }

    /// The map of a whole leased block: its first ID is root inside.
    #[must_use]
    pub fn of_block(block: IdBlock) -> Self {
        Self { host: block.span(), container: ContainerId::ROOT }
    }

    /// The host IDs.
    #[must_use]
    pub fn host(self) -> HostSpan {
        self.host
    }

    /// The first container ID.
    #[must_use]
    pub fn container(self) -> ContainerId {
        self.container
    }

    /// How many IDs.
    #[must_use]
    pub fn length(self) -> u64 {
        self.host.length()
    }

    fn inside(self) -> (u64, u64) {
        let first = u64::from(self.container);
        (first, first + self.length() - 1)
    }

    fn to_host(self, id: ContainerId) -> Option<HostId> {
        let (first, last) = self.inside();
        let id = u64::from(id);
        (first..=last)
            .contains(&id)
            .then(|| HostId::try_from(u64::from(self.host.first()) + (id - first)).ok())?
    }

    fn to_container(self, id: HostId) -> Option<ContainerId> {
        self.host.contains(id).then(|| {
            ContainerId::try_from(u64::from(self.container) + (u64::from(id) - u64::from(self.host.first())))
                .ok()
        })?
    }
}

impl TryFrom<RawMapping> for IdMapping {
    type Error = MappingError;

    fn try_from(raw: RawMapping) -> Result<Self, MappingError> {
        Self::new(raw.container_id, raw.host_id, raw.length)
    }
}

impl From<IdMapping> for RawMapping {
    fn from(m: IdMapping) -> Self {
        Self { host_id: m.host.first().into(), container_id: m.container.into(), length: m.length() }
    }
}

/// A map that the caller chose. CRI allows any: unaligned, on host IDs, several lines. It can be used and translated
/// with, but no lease can be made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerMapping {
    uids: Vec<IdMapping>,
    gids: Vec<IdMapping>,
}

impl CallerMapping {
    /// Takes the lines as they are; refuses none at all and lines that contradict each other, as
    /// the kernel would.
    pub fn new(uids: Vec<IdMapping>, gids: Vec<IdMapping>) -> Result<Self, MappingError> {
        for (kind, lines) in [(IdKind::Uid, &uids), (IdKind::Gid, &gids)] {
            if lines.is_empty() {
                return Err(MappingError::Empty(kind));
            }
            for (i, a) in lines.iter().enumerate() {
                for b in lines.iter().skip(i + 1) {
                    contradiction(*a, *b)?;
                }
            }
        }
        Ok(Self { uids, gids })
    }

    /// The user ID lines.
    #[must_use]
    pub fn uids(&self) -> &[IdMapping] {
        &self.uids
    }

    /// The group ID lines.
    #[must_use]
    pub fn gids(&self) -> &[IdMapping] {
        &self.gids
    }
}

fn contradiction(a: IdMapping, b: IdMapping) -> Result<(), MappingError> {
    if let Some(both) = a.host.intersection(b.host) {
        return Err(MappingError::HostTwice(both));
    }
    let span = |m: IdMapping| HostSpan::new(m.container.into(), m.length()).map_err(MappingError::Container);
    match span(a)?.intersection(span(b)?) {
        Some(both) => Err(MappingError::ContainerTwice(both)),
        None => Ok(()),
    }
}

/// An ID that the map says nothing about. Inside, the kernel shows it as the overflow ID 65534.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {id} is not mapped in this user namespace")]
pub struct Unmapped {
    /// The space the ID is of.
    pub kind: IdKind,
    /// The ID that was to be translated.
    pub id: u32,
}

/// The user namespace that a pod's processes live in, as far as IDs go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserNamespace {
    /// None of its own: IDs inside are IDs outside.
    Host,
    /// Its own, over blocks leased to it.
    Leased {
        /// The block of user IDs.
        uids: IdBlock,
        /// The block of group IDs.
        gids: IdBlock,
    },
    /// Its own, over a map that the caller brought.
    Caller(CallerMapping),
}

impl UserNamespace {
    /// What `id` is on the host. Nothing in, nothing out; without a user namespace, unchanged.
    pub fn to_host(&self, kind: IdKind, id: Option<ContainerId>) -> Result<Option<HostId>, Unmapped> {
        self.translate(id, |id| match self.lines(kind) {
            None => HostId::try_from(u64::from(id)).ok(),
            Some(lines) => lines.iter().find_map(|m| m.to_host(id)),
        })
        .map_err(|id| Unmapped { kind, id: id.get() })
    }

    /// What host `id` is inside. Nothing in, nothing out; without a user namespace, unchanged.
    pub fn to_container(&self, kind: IdKind, id: Option<HostId>) -> Result<Option<ContainerId>, Unmapped> {
        self.translate(id, |id| match self.lines(kind) {
            None => ContainerId::try_from(u64::from(id)).ok(),
            Some(lines) => lines.iter().find_map(|m| m.to_container(id)),
        })
        .map_err(|id| Unmapped { kind, id: id.get() })
    }

    /// The lines of the map; `None` where there is no user namespace.
    #[must_use]
    pub fn lines(&self, kind: IdKind) -> Option<Vec<IdMapping>> {
        match (self, kind) {
            (Self::Host, _) => None,
            (Self::Leased { uids, .. }, IdKind::Uid) => Some(vec![IdMapping::of_block(*uids)]),
            (Self::Leased { gids, .. }, IdKind::Gid) => Some(vec![IdMapping::of_block(*gids)]),
            (Self::Caller(m), IdKind::Uid) => Some(m.uids.clone()),
            (Self::Caller(m), IdKind::Gid) => Some(m.gids.clone()),
        }
    }

    fn translate<A: Copy, B>(&self, id: Option<A>, f: impl Fn(A) -> Option<B>) -> Result<Option<B>, A> {
        match id {
            None => Ok(None),
            Some(id) => f(id).map(Some).ok_or(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leased() -> UserNamespace {
        UserNamespace::Leased {
            uids: IdBlock::new(65_536, 65_536).unwrap(),
            gids: IdBlock::new(131_072, 65_536).unwrap(),
        }
    }

    fn inside(id: u64) -> Option<ContainerId> {
        Some(ContainerId::try_from(id).unwrap())
    }

    fn outside(id: u64) -> Option<HostId> {
        Some(HostId::try_from(id).unwrap())
    }

    #[test]
    fn nothing_in_nothing_out() {
        for ns in [UserNamespace::Host, leased()] {
            assert_eq!(ns.to_host(IdKind::Uid, None), Ok(None));
            assert_eq!(ns.to_container(IdKind::Gid, None), Ok(None));
        }
    }

    #[test]
    fn without_a_user_namespace_ids_are_unchanged() {
        assert_eq!(UserNamespace::Host.to_host(IdKind::Uid, inside(1000)), Ok(outside(1000)));
        assert_eq!(UserNamespace::Host.to_container(IdKind::Gid, outside(70_000)), Ok(inside(70_000)));
    }

    #[test]
    fn user_and_group_ids_go_through_their_own_block() {
        assert_eq!(leased().to_host(IdKind::Uid, inside(1000)), Ok(outside(66_536)));
        assert_eq!(leased().to_host(IdKind::Gid, inside(1000)), Ok(outside(132_072)));
    }

    #[test]
    fn an_unmapped_id_is_an_answer_of_its_own() {
        let e = leased().to_host(IdKind::Uid, inside(65_536)).unwrap_err();
        assert_eq!(e, Unmapped { kind: IdKind::Uid, id: 65_536 });
        assert!(leased().to_container(IdKind::Uid, outside(65_535)).is_err());
        assert!(leased().to_container(IdKind::Uid, outside(131_072)).is_err());
        assert!(leased().to_container(IdKind::Uid, outside(0)).is_err());
    }

    #[test]
    fn a_callers_map_may_touch_the_host_and_stays_a_callers() {
        let m = IdMapping::new(0, 1000, 100_000).unwrap();
        let ns = UserNamespace::Caller(CallerMapping::new(vec![m], vec![m]).unwrap());
        assert_eq!(ns.to_host(IdKind::Uid, inside(99_999)), Ok(outside(100_999)));
        assert!(ns.to_host(IdKind::Uid, inside(100_000)).is_err());
    }

    #[test]
    fn a_callers_map_with_contradicting_lines_is_refused_as_the_kernel_would() {
        let a = IdMapping::new(0, 100_000, 10).unwrap();
        let same_inside = IdMapping::new(9, 200_000, 10).unwrap();
        let same_outside = IdMapping::new(20, 100_009, 10).unwrap();
        assert!(matches!(
            CallerMapping::new(vec![a, same_inside], vec![a]),
            Err(MappingError::ContainerTwice(_))
        ));
        assert!(matches!(
            CallerMapping::new(vec![a], vec![a, same_outside]),
            Err(MappingError::HostTwice(_))
        ));
        assert!(matches!(CallerMapping::new(vec![a], vec![]), Err(MappingError::Empty(IdKind::Gid))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases()))]
        #[test]
        fn what_goes_in_comes_back_out(c in 0u64..1 << 33, h in 0u64..1 << 33, n in 0u64..1 << 33, id in 0u64..u64::from(u32::MAX)) {
            if let Ok(m) = IdMapping::new(c, h, n) {
                prop_assert!(c + n <= u64::from(u32::MAX) && h + n <= u64::from(u32::MAX));
                let ns = UserNamespace::Caller(CallerMapping::new(vec![m], vec![m]).unwrap());
                match ns.to_host(IdKind::Uid, inside(id)) {
                    Ok(host) => {
                        prop_assert!(id >= c && id < c + n);
                        prop_assert_eq!(u64::from(host.unwrap()), h + (id - c));
                        prop_assert_eq!(ns.to_container(IdKind::Uid, host), Ok(inside(id)));
                    }
                    Err(_) => prop_assert!(id < c || id >= c + n),
                }
            }
        }
    }
}
