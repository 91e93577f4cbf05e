//! Which capabilities a container has, from what was added and dropped.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// All capabilities of Linux, by number.
const ALL: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The default capabilities of a container: those that container runtimes agreed on.
const USUAL: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// The five capability sets of a process, with the `CAP_`, in the kernel's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sets {
    /// The bounding set.
    pub bounding: Vec<String>,
    /// The effective set.
    pub effective: Vec<String>,
    /// The inheritable set.
    pub inheritable: Vec<String>,
    /// The permitted set.
    pub permitted: Vec<String>,
    /// The ambient set.
    pub ambient: Vec<String>,
}

/// The requested capabilities, as the fields of CRI's `Capability` and of a pod's `securityContext.capabilities`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedCapabilities {
    /// Added to the default ones; `ALL` is all.
    pub add: Vec<String>,
    /// Dropped, also from what was added; `ALL` is all except what is added by name.
    pub drop: Vec<String>,
    /// Added, and kept by programs that a user other than root starts.
    pub add_ambient: Vec<String>,
}

/// A capability that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Linux does not have it.
    #[error("there is no capability {name:?}")]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// It was to be ambient and to be dropped.
    #[error("{name:?} is dropped, and cannot be ambient")]
    DroppedAmbient {
        /// The name that was given.
        name: String,
    },
}

impl Refused {
    /// The name that was given.
    #[must_use]
    pub fn name(&self) -> &String {
        match self {
            Self::Unknown { name } | Self::DroppedAmbient { name } => name,
        }
    }
}

/// The sets of a container with this request.
///
/// A capability that is dropped by name is never held. Dropping `ALL` removes all except those that are added by name,
/// and so also what `ALL` added.
pub fn of(asked: &RequestedCapabilities) -> Result<Sets, Refused> {
    let (add, drop) = (Names::read(&asked.add)?, Names::read(&asked.drop)?);
    let ambient = Names::read(&asked.add_ambient)?;
    for name in &asked.add_ambient {
        if !Names::read(std::slice::from_ref(name))?.names.is_disjoint(&drop.names) {
            return Err(Refused::DroppedAmbient { name: name.clone() });
        }
    }
    let base: BTreeSet<&str> = match (add.all, drop.all) {
        (_, true) => BTreeSet::new(),
        (true, false) => ALL.into_iter().collect(),
        (false, false) => USUAL.into_iter().collect(),
    };
    let added = base.into_iter().chain(add.names.iter().copied()).chain(ambient.names.iter().copied());
    let held: BTreeSet<&str> = added.filter(|name| !drop.names.contains(name)).collect();
    Ok(Sets {
        bounding: written(&held),
        effective: written(&held),
        inheritable: written(&ambient.names),
        permitted: written(&held),
        ambient: written(&ambient.names),
    })
}

/// The sets of a privileged container: all, in its own user namespace.
#[must_use]
pub fn all() -> Sets {
    let all = written(&ALL.into_iter().collect());
    Sets { bounding: all.clone(), effective: all.clone(), permitted: all, ..Sets::default() }
}

/// A list of capabilities as configured.
struct Names {
    all: bool,
    names: BTreeSet<&'static str>,
}

impl Names {
    fn read(list: &[String]) -> Result<Self, Refused> {
        let mut read = Self { all: false, names: BTreeSet::new() };
        for written in list {
            let upper = written.to_ascii_uppercase();
            let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
            match ALL.into_iter().find(|known| *known == bare) {
                Some(known) => _ = read.names.insert(known),
                None if bare == "ALL" => read.all = true,
                None => return Err(Refused::Unknown { name: written.clone() }),
            }
        }
        Ok(read)
    }
}

fn written(names: &BTreeSet<&str>) -> Vec<String> {
    ALL.into_iter().filter(|name| names.contains(name)).map(|name| format!("CAP_{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(add: &[&str], drop: &[&str]) -> RequestedCapabilities {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        RequestedCapabilities { add: list(add), drop: list(drop), add_ambient: Vec::new() }
    }

    fn effective(add: &[&str], drop: &[&str]) -> Vec<String> {
        of(&asked(add, drop)).unwrap().effective
    }

    #[test]
    fn nobody_said_anything_means_the_usual_ones() {
        let sets = of(&RequestedCapabilities::default()).unwrap();
        assert_eq!(sets.effective.len(), USUAL.len());
        assert_eq!((sets.inheritable.len(), sets.ambient.len()), (0, 0));
        assert_eq!(sets.bounding, sets.permitted);
    }

    #[test]
    fn a_name_is_known_with_and_without_its_prefix_and_in_any_case() {
        for name in ["CAP_SYS_ADMIN", "SYS_ADMIN", "sys_admin"] {
            assert!(effective(&[name], &[]).contains(&"CAP_SYS_ADMIN".to_owned()), "{name}");
        }
    }

    #[test]
    fn dropping_all_and_adding_one_leaves_that_one() {
        assert_eq!(effective(&["NET_BIND_SERVICE"], &["ALL"]), ["CAP_NET_BIND_SERVICE"]);
    }

    #[test]
    fn adding_all_and_dropping_one_leaves_the_others() {
        let held = effective(&["ALL"], &["CHOWN"]);
        assert_eq!(held.len(), ALL.len() - 1);
        assert!(!held.contains(&"CAP_CHOWN".to_owned()));
    }

    #[test]
    fn what_is_dropped_is_not_held_whatever_is_added() {
        assert!(!effective(&["SYS_ADMIN"], &["SYS_ADMIN"]).contains(&"CAP_SYS_ADMIN".to_owned()));
        assert_eq!(effective(&["ALL"], &["ALL"]), Vec::<String>::new());
        assert_eq!(effective(&["ALL", "KILL"], &["ALL"]), ["CAP_KILL"]);
        assert_eq!(effective(&["KILL", "CHOWN"], &["ALL", "KILL"]), ["CAP_CHOWN"]);
        let both = RequestedCapabilities { add_ambient: vec!["KILL".into()], ..asked(&[], &["CAP_KILL"]) };
        assert_eq!(of(&both), Err(Refused::DroppedAmbient { name: "KILL".into() }));
    }

    #[test]
    fn an_unknown_name_is_refused_and_not_passed_over() {
        assert_eq!(of(&asked(&[], &["NET_RAWW"])), Err(Refused::Unknown { name: "NET_RAWW".into() }));
    }

    #[test]
    fn ambient_ones_are_in_all_five_sets() {
        let asked = RequestedCapabilities {
            add_ambient: vec!["NET_RAW".into()],
            drop: vec!["ALL".into()],
            ..RequestedCapabilities::default()
        };
        let sets = of(&asked).unwrap();
        for set in [sets.bounding, sets.effective, sets.inheritable, sets.permitted, sets.ambient] {
            assert_eq!(set, ["CAP_NET_RAW"]);
        }
    }
}
