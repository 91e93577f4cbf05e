use std::fmt;

use ids::witness::{Hold, Use};
use ids::{HostId, HostSpan, IdKind, UNIT};
use serde::Serialize;

/// How a task comes to use an ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Real user or group ID.
    Real,
    /// Effective user or group ID.
    Effective,
    /// Saved user or group ID.
    Saved,
    /// Filesystem user or group ID.
    Filesystem,
    /// Supplementary group.
    Supplementary,
}

impl Role {
    /// The order of the kernel in `/proc/PID/status`.
    pub(crate) const CREDENTIALS: [Self; 4] = [Self::Real, Self::Effective, Self::Saved, Self::Filesystem];

    fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Effective => "effective",
            Self::Saved => "saved",
            Self::Filesystem => "filesystem",
            Self::Supplementary => "supplementary",
        }
    }
}

/// The user namespace that a process lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Home {
    /// The host's own.
    Host,
    /// The one with this inode.
    Inode(u64),
    /// It could not be determined.
    Unknown,
}

/// How a user namespace was found; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Via {
    /// Tasks live in it.
    Task,
    /// No task, but an open descriptor refers to it.
    Descriptor,
    /// No task, but it is mounted somewhere.
    Mount,
    /// Neither, but a namespace of another kind, or a user namespace made inside, belongs to it.
    Belonging,
}

/// What sort of owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OwnerKind {
    /// A process; its threads may differ in their IDs, all are counted.
    Process {
        /// Its ID on the host.
        pid: u32,
        /// Its name.
        comm: String,
        /// The user namespace it lives in.
        home: Home,
        /// How it uses the IDs.
        roles: Vec<Role>,
    },
    /// A user namespace other than the host's.
    UserNamespace {
        /// Its identity; unknown where it may not be read.
        inode: Option<u64>,
        /// The processes in it.
        pids: Vec<u32>,
        /// How it was found.
        via: Via,
        /// The user namespace of the nearest ancestor process outside, if not the host's: the one
        /// that this one is most likely nested in.
        enclosing: Option<u64>,
    },
    /// A user in `/etc/passwd`.
    Passwd {
        /// Its name.
        user: String,
    },
    /// A group in `/etc/group`.
    Group {
        /// Its name.
        group: String,
    },
    /// A line of `/etc/subuid`.
    Subuid {
        /// The user or group that the IDs are assigned to.
        owner: String,
        /// The line, from 1.
        line: usize,
    },
    /// A line of `/etc/subgid`.
    Subgid {
        /// The user or group that the IDs are assigned to.
        owner: String,
        /// The line, from 1.
        line: usize,
    },
    /// A kubelet's record of a pod's block.
    KubeletRecord {
        /// The pod's UID.
        pod: String,
        /// It claims 2^32-1 as well, which no span can hold and the kernel never maps.
        reaches_last_id: bool,
    },
    /// A container in the store of podman, CRI-O or buildah.
    Podman {
        /// The container's name or ID.
        container: String,
        /// The UID of the pod it belongs to, where CRI-O noted one.
        pod: Option<String>,
    },
    /// An instance of Incus or LXD.
    Incus {
        /// Its name.
        instance: String,
    },
}

/// A user of host IDs, or a claim to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// What sort of owner.
    #[serde(flatten)]
    pub kind: OwnerKind,
    /// For a person to read.
    pub name: String,
    /// In use now, or claimed.
    pub hold: Hold,
    /// User IDs.
    pub uids: Vec<HostSpan>,
    /// Group IDs.
    pub gids: Vec<HostSpan>,
}

impl Owner {
    /// The IDs of one space.
    #[must_use]
    pub fn ids(&self, kind: IdKind) -> &[HostSpan] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    /// The uses for the ledger. IDs below 65536 are left out: no block can hold them.
    pub(crate) fn uses(&self) -> impl Iterator<Item = Use> {
        let by = self.testimony();
        [IdKind::Uid, IdKind::Gid]
            .into_iter()
            .flat_map(|kind| self.ids(kind).iter().map(move |ids| (kind, *ids)))
            .filter(|(_, ids)| u64::from(ids.last()) >= UNIT)
            .map(move |(kind, ids)| Use { kind, ids, hold: self.hold, by: by.clone() })
    }

    fn testimony(&self) -> String {
        match &self.kind {
            OwnerKind::Process { roles, .. } => {
                let roles: Vec<_> = roles.iter().map(|r| r.name()).collect();
                format!("{}: {} ID", self.name, roles.join(", "))
            }
            _ => self.name.clone(),
        }
    }
}

/// A file, or a part of one, that says nothing usable about IDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as the host names it.
    pub file: String,
    /// What is wrong, with the line or field.
    pub cause: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.cause)
    }
}

/// All that one look at the host has shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Every user and every claim of IDs.
    pub owners: Vec<Owner>,
    /// What could not be looked into, and why. While there is any, no ID can be called unused.
    pub blind: Vec<String>,
    /// What the reader should know, without doubt falling on the rest.
    pub notes: Vec<String>,
    /// Files that could not be understood.
    pub problems: Vec<Problem>,
}

impl Report {
    /// The owners that use or claim `id` as a user ID, then those that do so as a group ID.
    pub fn lookup(&self, id: HostId) -> impl Iterator<Item = (IdKind, &Owner)> {
        [IdKind::Uid, IdKind::Gid].into_iter().flat_map(move |kind| {
            let holds = move |o: &&Owner| o.ids(kind).iter().any(|s| s.contains(id));
            self.owners.iter().filter(holds).map(move |o| (kind, o))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: OwnerKind, uids: &[(u64, u64)]) -> Owner {
        let uids = uids.iter().map(|(f, n)| HostSpan::new(*f, *n).unwrap()).collect();
        Owner { kind, name: "process 7 (x)".into(), hold: Hold::Live, uids, gids: vec![] }
    }

    #[test]
    fn ids_below_65536_stay_in_the_report_and_out_of_the_testimony() {
        let kind = OwnerKind::Passwd { user: "x".into() };
        let report = Report { owners: vec![owner(kind, &[(1000, 1), (70_000, 1)])], ..Report::default() };
        assert_eq!(report.lookup(HostId::try_from(1000).unwrap()).count(), 1);
        let uses: Vec<_> = report.owners.iter().flat_map(Owner::uses).collect();
        assert_eq!(uses.len(), 1);
        assert_eq!(uses[0].ids.first(), 70_000);
    }

    #[test]
    fn a_process_says_how_it_uses_the_id() {
        let kind = OwnerKind::Process {
            pid: 7,
            comm: "x".into(),
            home: Home::Host,
            roles: vec![Role::Effective, Role::Supplementary],
        };
        let uses: Vec<_> = owner(kind, &[(70_000, 1)]).uses().map(|u| u.by).collect();
        assert_eq!(uses, ["process 7 (x): effective, supplementary ID"]);
    }

    #[test]
    fn an_owner_in_json_carries_its_kind_beside_its_ids() {
        let kind = OwnerKind::KubeletRecord { pod: "u".into(), reaches_last_id: false };
        let json = serde_json::to_value(owner(kind, &[(65_536, 65_536)])).unwrap();
        assert_eq!(json["kind"], "kubeletRecord");
        assert_eq!(json["pod"], "u");
        assert_eq!(json["uids"][0]["hostId"], 65_536);
    }
}
