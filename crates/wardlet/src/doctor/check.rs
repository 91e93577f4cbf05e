//! One need of the node and how it stands.

use serde::Serialize;

/// Fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Check {
    pub(crate) need: String,
    /// Whether it is known to hold.
    pub(crate) holds: bool,
    pub(crate) found: String,
    /// Why it does not hold, or cannot be told.
    pub(crate) cause: Option<String>,
    /// What to do about it.
    pub(crate) fix: Option<String>,
    pub(crate) group: Group,
    pub(crate) verdict: Verdict,
    pub(crate) severity: Severity,
    pub(crate) evidence: Evidence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    Holds,
    Fails,
    /// It could not be told.
    Open,
}

/// What hangs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
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
pub(crate) enum Evidence {
    /// It was tried on the running kernel, whatever the host root.
    Trial,
    /// It is written in files under the host root.
    Files,
    /// The container runtime says so.
    Runtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Group {
    UserNamespaces,
    Filesystems,
    Ids,
    Cgroups,
    Kernel,
    Selinux,
    Runtime,
    Wrapper,
    FeatureGates,
}

impl Group {
    pub(crate) fn title(self) -> &'static str {
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

    /// It could not be told.
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
