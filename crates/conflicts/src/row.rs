//! A pod as the engine keeps it.

use std::sync::Arc;

use selinux::{Reach, Scope};
use smallvec::SmallVec;

use types::{AccessMode, ChangePolicy};

use crate::ask::{Ask, Labels};
use crate::index::Index;
use crate::keys::{PodKey, VolumeId};
use crate::objects::{Mount, Pod, PodVolume, PodVolumeSource, VolumeSource};
use crate::placement::Node;
use crate::pools::Pools;
use crate::rules::{PrivilegedOptions, Rules};
use crate::steering::{PodLabels, Steering};

/// A pod.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: PodKey,
    uid: Option<Box<str>>,
    pub(crate) policy: ChangePolicy,
    pub(crate) uses: SmallVec<[Use; 1]>,
    /// In which groups of which volumes it is now.
    pub(crate) entries: Entries,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) steering: Arc<Steering>,
    pub(crate) labels: Arc<PodLabels>,
}

/// A pod's use of one of its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) name: Arc<str>,
    pub(crate) source: UseSource,
    pub(crate) labels: Labels,
    pub(crate) traits: Traits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UseSource {
    /// By its index; `None` for one that is not known and that no pod waits for.
    Claim(Option<Index>),
    Inline {
        id: VolumeId,
        mountable: bool,
    },
    /// The driver by its index; `None` as for a claim.
    Migrated {
        id: VolumeId,
        driver: Option<Index>,
        span: Span,
    },
}

/// Most pods ask something of one volume: that lies with the pod.
pub(crate) type Entries = SmallVec<[Entry; 1]>;

/// A pod's place on a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) volume: Index,
    pub(crate) ask: Ask,
    pub(crate) manner: Manner,
}

/// How a pod has a volume, as far as it does not matter for whether there is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) traits: Traits,
    pub(crate) span: Span,
    pub(crate) reach: Reach,
}

/// What is known of a pod on a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'e> {
    pub(crate) row: &'e Row,
    pub(crate) manner: Manner,
}

/// How far a volume reaches at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    OnePod,
    OneNode,
    Anywhere,
}

impl Span {
    /// A mode that is never given with another counts only alone.
    pub(crate) fn of(modes: &[AccessMode]) -> Self {
        let only = |mode| !modes.is_empty() && modes.iter().all(|&m| m == mode);
        if only(AccessMode::ReadWriteOncePod) {
            Self::OnePod
        } else if only(AccessMode::ReadWriteOnce) {
            Self::OneNode
        } else {
            Self::Anywhere
        }
    }

    /// How the gates see a persistent volume that reaches so far.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::OnePod => Scope::OnePod,
            Self::OneNode | Self::Anywhere => Scope::Persistent,
        }
    }
}

/// How a pod's containers mount a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Parts of it only.
    pub(crate) sub_paths: bool,
    /// All of them are privileged.
    pub(crate) privileged: bool,
    /// All read only.
    pub(crate) read_only: bool,
    /// One that is not privileged has no options.
    pub(crate) unlabelled: bool,
    /// One that is privileged has options.
    pub(crate) privileged_options: bool,
    /// One has options, but no level among them.
    pub(crate) without_level: bool,
}

impl Traits {
    fn of(mounts: &[Mount]) -> Self {
        let says = |m: &Mount| m.options.as_ref().is_some_and(|o| !o.is_empty());
        Self {
            sub_paths: mounts.iter().all(|m| m.sub_path),
            privileged: mounts.iter().all(|m| m.privileged),
            read_only: mounts.iter().all(|m| m.read_only),
            unlabelled: mounts.iter().any(|m| !m.privileged && !says(m)),
            privileged_options: mounts.iter().any(|m| m.privileged && says(m)),
            without_level: mounts
                .iter()
                .any(|m| says(m) && m.options.as_ref().is_some_and(|o| o.level().is_none())),
        }
    }

    /// Of one volume that the pod has under two names.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sub_paths: self.sub_paths && other.sub_paths,
            privileged: self.privileged && other.privileged,
            read_only: self.read_only && other.read_only,
            unlabelled: self.unlabelled || other.unlabelled,
            privileged_options: self.privileged_options || other.privileged_options,
            without_level: self.without_level || other.without_level,
        }
    }
}

/// What a pod names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named<'a> {
    /// A claim in the pod's namespace.
    Claim(&'a PodKey, &'a str),
    /// A CSI driver.
    Driver(&'a str),
}

/// Finds the index of what a pod names.
pub(crate) type Names<'a> = dyn FnMut(Named<'_>) -> Option<Index> + 'a;

impl Use {
    fn of(pod: &PodKey, volume: &PodVolume, rules: &Rules, pools: &mut Pools, names: &mut Names<'_>) -> Self {
        let source = match &volume.source {
            PodVolumeSource::Claim(name) => UseSource::Claim(names(Named::Claim(pod, name))),
            PodVolumeSource::Migrated { id, driver, access_modes } => {
                let (driver, span) = (names(Named::Driver(driver)), Span::of(access_modes));
                UseSource::Migrated { id: id.clone(), driver, span }
            }
            PodVolumeSource::Inline { id, source } => {
                let mountable = matches!(source, VolumeSource::Iscsi | VolumeSource::FibreChannel);
                UseSource::Inline { id: id.clone(), mountable }
            }
        };
        let counted = |m: &&Mount| !m.privileged || rules.privileged == PrivilegedOptions::Counted;
        let options = volume.mounts.iter().filter(counted).filter_map(|m| m.options.as_ref());
        let labels = Labels::of(options.map(|o| pools.label(o, rules)));
        Self { name: pools.text(&volume.name), source, labels, traits: Traits::of(&volume.mounts) }
    }
}

impl Row {
    pub(crate) fn of(pod: &Pod, rules: &Rules, pools: &mut Pools, names: &mut Names<'_>) -> Self {
        let policy = pod.change_policy.filter(|_| rules.gates.change_policy);
        let mounted = pod.volumes.iter().filter(|v| !v.mounts.is_empty());
        let node = match &pod.placement.node {
            Node::Unbound => None,
            Node::Bound(node) | Node::Pinned(node) => Some(pools.text(node)),
        };
        let key = pod.key.clone();
        let uses = mounted.map(|v| Use::of(&key, v, rules, pools, names)).collect();
        Self {
            uses,
            key,
            uid: pod.uid.as_deref().map(Into::into),
            policy: policy.unwrap_or(ChangePolicy::MountOption),
            entries: Entries::new(),
            node,
            steering: pools.steering(&pod.placement),
            labels: pools.pod_labels(&pod.placement.labels),
        }
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    pub(crate) fn entry_on(&self, volume: Index) -> Option<&Entry> {
        self.entries.iter().find(|e| e.volume == volume)
    }

    /// The claims that it uses, each once.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Index> {
        self.each_once(|source| match source {
            UseSource::Claim(place) => *place,
            UseSource::Inline { .. } | UseSource::Migrated { .. } => None,
        })
    }

    /// The drivers of volumes that it names itself, each once.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = Index> {
        self.each_once(|source| match source {
            UseSource::Migrated { driver, .. } => *driver,
            UseSource::Claim(_) | UseSource::Inline { .. } => None,
        })
    }

    fn each_once(&self, index: impl Fn(&UseSource) -> Option<Index> + Copy) -> impl Iterator<Item = Index> {
        let all = self.uses.iter().enumerate();
        all.filter_map(move |(at, used)| {
            let found = index(&used.source)?;
            let earlier = self.uses.iter().take(at).any(|u| index(&u.source) == Some(found));
            (!earlier).then_some(found)
        })
    }

    /// Whether there may be something to say about this pod alone.
    pub(crate) fn notable(&self) -> bool {
        let one = |u: &Use| {
            matches!(u.labels, Labels::Several(_))
                || u.traits.privileged_options
                || u.traits.without_level
                || (u.traits.unlabelled && !matches!(u.labels, Labels::None))
        };
        let labelled = self.uses.iter().filter(|u| !matches!(u.labels, Labels::None)).count();
        // Two names may turn out to be one volume.
        self.uses.iter().any(one) || (labelled > 0 && self.uses.len() > 1)
    }
}
