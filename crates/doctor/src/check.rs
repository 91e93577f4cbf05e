//! One need of the node and how it stands.

use serde::Serialize;

/// One need of the node and how it stands. It is part of the JSON contract: fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What pods need of the node, as a sentence.
    pub need: String,
    /// Whether it is known to hold.
    pub holds: bool,
    /// What the node has instead, or has.
    pub found: String,
    /// Why the check fails, or cannot be determined.
    pub cause: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
    /// The part of the node that it is about.
    pub group: Group,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What depends on it.
    pub severity: Severity,
    /// Where the answer comes from.
    pub evidence: Evidence,
}

/// Whether a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is.
    Holds,
    /// It is not.
    Fails,
    /// It could not be determined.
    Open,
}

/// What depends on a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Without it, no pod or no pod of some kind gets a user namespace.
    Needed,
    /// Without it, something is slower, refused in fewer words, or left to others.
    Useful,
    /// Nothing: it is shown because it is asked for.
    Information,
}

/// Where the answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Evidence {
    /// It was tried on the running kernel, whatever the host root.
    Trial,
    /// It is written in files under the host root.
    Files,
    /// The container runtime says so.
    Runtime,
}

/// The part of the node that a check is about, in the order of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// Making user namespaces, with their limits.
    UserNamespaces,
    /// Idmapped mounts on the filesystems in use.
    Filesystems,
    /// The pool of host IDs and the ledger.
    Ids,
    /// Control groups.
    Cgroups,
    /// Settings of the kernel.
    Kernel,
    /// SELinux.
    Selinux,
    /// The container runtime and its handlers.
    Runtime,
    /// How `wardlet-oci` is wired to the container runtime.
    Wrapper,
    /// Feature gates of Kubernetes.
    FeatureGates,
}

impl Group {
    /// Its title for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::UserNamespaces => "user namespaces",
            Self::Filesystems => "filesystems",
            Self::Ids => "host IDs",
            Self::Cgroups => "cgroups",
            Self::Kernel => "kernel",
            Self::Selinux => "SELinux",
            Self::Runtime => "container runtime",
            Self::Wrapper => "wardlet-oci",
            Self::FeatureGates => "feature gates",
        }
    }
}

/// Why something is not as it should be, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: String,
    pub(crate) fix: String,
}

impl Fault {
    pub(crate) fn new(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { cause: cause.into(), fix: fix.into() }
    }
}

/// Where checks of one group and one kind of evidence come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Desk {
    pub(crate) group: Group,
    pub(crate) evidence: Evidence,
}

impl Desk {
    pub(crate) const fn new(group: Group, evidence: Evidence) -> Self {
        Self { group, evidence }
    }

    pub(crate) fn holds(self, need: impl Into<String>, found: impl Into<String>) -> Check {
        self.check(need.into(), found.into(), Verdict::Holds)
    }

    pub(crate) fn fails(self, need: impl Into<String>, found: impl Into<String>, fault: Fault) -> Check {
        self.check(need.into(), found.into(), Verdict::Fails).because(fault)
    }

    /// It could not be determined.
    pub(crate) fn open(self, need: impl Into<String>, fault: Fault) -> Check {
        self.check(need.into(), "unknown".to_owned(), Verdict::Open).because(fault)
    }

    /// Shown only.
    pub(crate) fn shows(self, need: impl Into<String>, found: impl Into<String>) -> Check {
        Check { severity: Severity::Information, ..self.holds(need, found) }
    }

    fn check(self, need: String, found: String, verdict: Verdict) -> Check {
        Check {
            need,
            holds: verdict == Verdict::Holds,
            found,
            cause: None,
            fix: None,
            group: self.group,
            verdict,
            severity: Severity::Needed,
            evidence: self.evidence,
        }
    }
}

impl Check {
    fn because(self, fault: Fault) -> Self {
        Self { cause: Some(fault.cause), fix: Some(fault.fix), ..self }
    }

    /// No pod depends on it.
    pub(crate) fn useful(self) -> Self {
        Self { severity: Severity::Useful, ..self }
    }
}
