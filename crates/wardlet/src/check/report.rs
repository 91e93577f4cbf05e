//! The whole answer of `check`. Written as JSON it is a contract: fields are added, never changed.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What was found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Every workload, by namespace, kind and name.
    pub(crate) workloads: Vec<Workload>,
    /// Pairs of workloads whose pods cannot have one volume on one node, by volume.
    pub(crate) conflicts: Vec<Conflict>,
    /// Volumes that more than one pod uses or that something was found about, with their users.
    pub(crate) volumes: Vec<Volume>,
    /// What would settle the conflicts of a volume, by volume.
    pub(crate) fixes: Vec<Fix>,
    /// What was found about CSI drivers.
    pub(crate) drivers: Vec<Driver>,
    /// What the upgrade would break: what `--gate` fails on.
    pub(crate) breaks: Vec<Break>,
    /// What could not be read or understood.
    pub(crate) problems: Vec<Problem>,
    /// What was taken for granted instead of found out.
    pub(crate) notes: Vec<String>,
    /// The upgrade that was asked about.
    pub(crate) upgrade: Upgrade,
    /// The answer in numbers.
    pub(crate) summary: Summary,
}

/// Who somebody is. A pod of nobody's is a workload of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Who {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `ReplicaSet`, `Job`, `CronJob`, `Pod`, or whatever
    /// kind a pod says its owner is.
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A workload and what becomes of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workload {
    #[serde(flatten)]
    pub(crate) who: Who,
    /// Where it is written, `file:line`; nothing where only its pods were seen.
    pub(crate) source: Option<Place>,
    /// How many of its pods were seen that are not finished.
    pub(crate) pods: usize,
    /// How many pods it asks for; nothing where it does not say.
    pub(crate) replicas: Option<u32>,
    pub(crate) user_namespace: UserNamespace,
    pub(crate) selinux: Selinux,
    pub(crate) pod_security: PodSecurity,
    /// The smallest change that gives it a user namespace of its own; nothing where it has one or
    /// where none is known.
    pub(crate) patch: Option<Patch>,
}

/// A place in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    /// The file, as it was named; for a cluster, the request.
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: u32,
    /// From 1.
    pub(crate) column: u32,
}

/// Whether a workload can have a user namespace of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserNamespace {
    pub(crate) verdict: Verdict,
    /// Which one it asks for now.
    pub(crate) now: Now,
    pub(crate) reasons: Vec<Reason>,
}

/// Whether a workload can have a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// Nothing is lost.
    Ready,
    /// It starts, and may miss something.
    Risky,
    /// It does not start.
    Blocked,
}

/// Which user namespace a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Now {
    /// One of its own: `hostUsers: false`.
    Own,
    /// The host's: `hostUsers` is true or not set.
    Host,
}

/// Why a verdict is as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reason {
    pub(crate) weight: Weight,
    /// The field as the object writes it: `spec.template.spec.hostNetwork`.
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
}

/// What a reason weighs; the heaviest decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Weight {
    Blocks,
    Risks,
    /// Worth knowing; it changes no verdict.
    Note,
}

/// SELinux, as far as it is this workload's alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Selinux {
    /// The labels that its pods ask for, `:::s0:c1,c2`; empty text is a container that asks for none.
    pub(crate) labels: Vec<String>,
    /// Its `seLinuxChangePolicy`, where it has one.
    pub(crate) change_policy: Option<String>,
    pub(crate) findings: Vec<SelinuxFinding>,
}

/// Something about one workload's own use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SelinuxFinding {
    pub(crate) what: SelinuxRule,
    /// The volume, as in [`Volume::id`], or the pod's own name for it.
    pub(crate) volume: String,
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
    pub(crate) when: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum SelinuxRule {
    /// Containers of one pod need one volume with different labels.
    #[serde(rename = "MultipleSELinuxLabels")]
    MultipleLabels,
    /// Containers with and without a label share a volume within a pod.
    LabelledAndUnlabelled,
    /// A container has options without a level: nobody knows beforehand which one it gets.
    WithoutLevel,
    /// A privileged container has options, which label its volume but not its process.
    PrivilegedWithOptions,
}

/// When something stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum When {
    /// Not before the upgrade, but after it.
    AfterUpgrade,
    /// Before and after.
    Already,
    /// Before, and no longer after.
    UntilUpgrade,
    /// Neither before nor after: under the gate `SELinuxMount` only.
    UnderSelinuxMount,
}

/// The highest level of the Pod Security Standards that a workload keeps to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSecurity {
    /// `privileged`, `baseline` or `restricted`.
    pub(crate) now: String,
    /// The same with `hostUsers: false`.
    pub(crate) with_user_namespace: String,
    /// What keeps it from the next level, as it is now.
    pub(crate) violations: Vec<Violation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Violation {
    /// The level that does not allow it.
    pub(crate) level: String,
    /// Upstream's name of the check.
    pub(crate) check: String,
    pub(crate) field: String,
    pub(crate) found: String,
    /// Whether a user namespace makes it allowed.
    pub(crate) allowed_in_user_namespace: bool,
}

/// A change to one object, applied by nobody but its owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Patch {
    #[serde(flatten)]
    pub(crate) target: Target,
    /// A strategic merge patch.
    pub(crate) body: Value,
    /// How many fields it changes.
    pub(crate) fields: usize,
    /// What the workload no longer has afterwards.
    pub(crate) gives_up: Vec<String>,
    pub(crate) apply: Apply,
    /// The command that applies `body` from a file, where it can be applied to the object as it is.
    pub(crate) command: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    pub(crate) api_version: String,
    #[serde(flatten)]
    pub(crate) who: Who,
}

/// How a change gets into effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Apply {
    /// The object takes it as it is.
    Patch,
    /// The API does not let these fields change: change the manifest and make the object anew.
    Recreate,
    /// The object was not seen, only its pods were.
    AtItsSource,
}

/// Two workloads whose pods cannot both have a volume on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conflict {
    /// `SELinuxLabel` or `SELinuxChangePolicy`.
    pub(crate) property: &'static str,
    /// As in [`Volume::id`].
    pub(crate) volume: String,
    pub(crate) a: Side,
    pub(crate) b: Side,
    pub(crate) severity: Severity,
    /// Why the severity is what it is.
    pub(crate) why: String,
    pub(crate) when: When,
    /// How many pairs of pods it stands for.
    pub(crate) pairs: u64,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Side {
    #[serde(flatten)]
    pub(crate) who: Who,
    /// Its label or its policy; empty where it has none.
    pub(crate) value: String,
    /// One of the pods that are meant, where pods were seen.
    pub(crate) pod: Option<String>,
    /// How many pods are meant.
    pub(crate) pods: u64,
}

/// How near a conflict is, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Two of the pods are on one node now.
    OnOneNode,
    /// They can both have the volume on one node only: it is ReadWriteOnce.
    MustMeet,
    /// Nothing keeps them from meeting on one node.
    MayMeet,
    /// They never meet on one node, by what they say themselves.
    CannotMeet,
}

/// A volume and who uses it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Volume {
    /// `driver/handle` where it is known, `claim namespace/name` where it is not.
    pub(crate) id: String,
    /// The PersistentVolume's name, where it was seen.
    pub(crate) persistent_volume: Option<String>,
    /// Its claim, `namespace/name`, where it was seen.
    pub(crate) claim: Option<String>,
    /// The CSI driver, where there is one.
    pub(crate) driver: Option<String>,
    pub(crate) access_modes: Vec<String>,
    /// Whether it is mounted with a context before and after the upgrade.
    pub(crate) mounted_with_context: BeforeAfter,
    pub(crate) users: Vec<User>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BeforeAfter {
    pub(crate) before: bool,
    pub(crate) after: bool,
}

/// A workload's use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    #[serde(flatten)]
    pub(crate) who: Who,
    /// Its label after the upgrade; empty where it has none.
    pub(crate) label: String,
    /// `MountOption` or `Recursive`, after the upgrade.
    pub(crate) policy: String,
    /// Names of nodes where its pods are.
    pub(crate) nodes: Vec<String>,
    pub(crate) pods: u64,
}

/// What would settle everything that was found about a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fix {
    /// As in [`Volume::id`].
    pub(crate) volume: String,
    /// Each was tried, the best first: equal labels before opting out, then by fields changed.
    pub(crate) options: Vec<FixOption>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FixOption {
    pub(crate) how: How,
    /// In words: `give all of them the level s0:c1,c2`.
    pub(crate) what: String,
    /// How many fields change in all.
    pub(crate) fields: usize,
    pub(crate) gives_up: Vec<String>,
    pub(crate) patches: Vec<Patch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum How {
    /// All that share the volume get one label.
    EqualLabels,
    /// They opt out of mounting with a context.
    OptOut,
}

/// A CSI driver that says it can mount with a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Driver {
    pub(crate) name: String,
    /// The DaemonSet that runs it.
    pub(crate) daemon_set: Who,
    /// Paths of the host that it would need: `/sys/fs/selinux`, `/etc/selinux`.
    pub(crate) lacks: Vec<String>,
    pub(crate) cause: String,
    pub(crate) hint: String,
    /// Where the DaemonSet is written.
    pub(crate) source: Option<Place>,
}

/// Something that runs before the upgrade and does not after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Break {
    pub(crate) what: BreakRule,
    /// Whose pods do not start, or may not.
    pub(crate) workloads: Vec<Who>,
    /// The volume that it is about, as in [`Volume::id`].
    pub(crate) volume: Option<String>,
    /// One line that says it all.
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum BreakRule {
    /// Pods of different labels or policies share a volume.
    Conflict,
    /// One pod needs a volume with two labels.
    MultipleLabels,
    /// A driver that says it can mount with a context, and cannot.
    Driver,
    /// A pod that asks for a user namespace, which was not looked at before.
    UserNamespace,
}

/// Something that could not be read or understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    /// Where, if it is in a text.
    pub(crate) place: Option<Place>,
    /// The field; empty when it is about more than one.
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
}

/// What is compared with what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upgrade {
    pub(crate) from: GatesAt,
    pub(crate) to: GatesAt,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatesAt {
    /// `1.37`.
    pub(crate) version: String,
    /// Every gate that matters here and whether it is on.
    pub(crate) gates: BTreeMap<String, bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) workloads: usize,
    pub(crate) ready: usize,
    pub(crate) risky: usize,
    pub(crate) blocked: usize,
    /// Those that ask for a user namespace already.
    pub(crate) isolated: usize,
    /// Conflicts but those of pods that cannot meet.
    pub(crate) conflicts: usize,
    pub(crate) breaks: usize,
    pub(crate) problems: usize,
}
