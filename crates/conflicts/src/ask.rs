//! What a pod asks of a volume, and when two such wishes conflict.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use selinux::{Comparison, HostDefaults, PartialLabel, SelinuxOptions};
use serde::{Deserialize, Serialize};
use types::ChangePolicy;

/// What a pod asks of a volume. A pod that asks for no label has the policy `Recursive`, and one with
/// that policy asks for no label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask {
    label: Arc<PartialLabel>,
    policy: ChangePolicy,
}

/// In what two pods differ, by upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Property {
    /// In whether the volume is mounted with a label at all.
    SELinuxChangePolicy,
    /// In the label.
    SELinuxLabel,
}

impl Property {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::SELinuxChangePolicy, Self::SELinuxLabel];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SELinuxChangePolicy => "SELinuxChangePolicy",
            Self::SELinuxLabel => "SELinuxLabel",
        }
    }

    /// The reason of events about it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::SELinuxChangePolicy => "SELinuxChangePolicyConflict",
            Self::SELinuxLabel => "SELinuxLabelConflict",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One pod's side of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value<'e> {
    /// Its policy.
    Policy(ChangePolicy),
    /// Its label; empty if it asks for none.
    Label(&'e PartialLabel),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::Label(label) => label.fmt(f),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Ask {
    pub(crate) fn new(label: Arc<PartialLabel>, policy: ChangePolicy) -> Self {
        Self { label, policy }
    }

    /// The label; empty if none is asked for.
    #[must_use]
    pub fn label(&self) -> &PartialLabel {
        &self.label
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> ChangePolicy {
        self.policy
    }

    /// This side of a property.
    #[must_use]
    pub fn value(&self, property: Property) -> Value<'_> {
        match property {
            Property::SELinuxChangePolicy => Value::Policy(self.policy),
            Property::SELinuxLabel => Value::Label(&self.label),
        }
    }

    /// Whether two pods that ask for these conflict in this property.
    #[must_use]
    pub fn conflicts(&self, other: &Self, property: Property) -> bool {
        match property {
            Property::SELinuxChangePolicy => self.policy != other.policy,
            Property::SELinuxLabel => {
                !Arc::ptr_eq(&self.label, &other.label)
                    && matches!(self.label.compare(&other.label), Comparison::Different(_))
            }
        }
    }

    /// Whether this is the same, for two of one engine, which has every label once.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.label, &other.label) && self.policy == other.policy
    }

    /// In how many properties they conflict.
    pub(crate) fn differences(&self, other: &Self) -> u64 {
        Property::ALL.into_iter().map(|p| u64::from(self.conflicts(other, p))).sum()
    }
}

/// The labels that the containers of one pod ask for on one volume. Options that say nothing ask for
/// the empty label; a container without options asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Labels {
    #[default]
    None,
    One(Arc<PartialLabel>),
    Several(Arc<BTreeSet<PartialLabel>>),
}

impl Labels {
    pub(crate) fn of(labels: impl Iterator<Item = Arc<PartialLabel>>) -> Self {
        labels.fold(Self::None, |all, label| all.and(Self::One(label)))
    }

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, labels) | (labels, Self::None) => labels,
            (Self::One(a), Self::One(b)) if a == b => Self::One(a),
            (a, b) => Self::Several(Arc::new(a.iter().chain(b.iter()).cloned().collect())),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PartialLabel> {
        let (one, several) = match self {
            Self::None => (None, None),
            Self::One(label) => (Some(&**label), None),
            Self::Several(labels) => (None, Some(labels.iter())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

/// The label that options ask for. Where the host's defaults are known it is the label of files: their
/// role and type are the host's, whatever the process has.
pub(crate) fn label_of(options: &SelinuxOptions, defaults: Option<&HostDefaults>) -> PartialLabel {
    let Some(defaults) = defaults.filter(|_| !options.is_empty()) else {
        return PartialLabel::of(options);
    };
    let file = &defaults.file;
    PartialLabel::of(&SelinuxOptions {
        user: Some(options.user().unwrap_or(file.user().as_str()).to_owned()),
        role: Some(file.role().as_str().to_owned()),
        kind: Some(file.kind().as_str().to_owned()),
        level: options.level.clone(),
    })
}
