//! The whole answer of `check`. Written as JSON it is a contract: fields are added, never changed.

use std::collections::BTreeMap;

pub use conflicts::Property;
pub use inventory::{ObjectRef, PodSecurity, Problem, SourcePosition, Violation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Every workload, by namespace, kind and name.
    pub workloads: Vec<Workload>,
    /// Pairs of workloads whose pods cannot have one volume on one node, by volume.
    pub conflicts: Vec<Conflict>,
    /// Volumes that more than one pod uses or that something was found about, with their users.
    pub volumes: Vec<Volume>,
    /// What would settle the conflicts of a volume, by volume.
    pub fixes: Vec<Fix>,
    /// What was found about CSI drivers.
    pub drivers: Vec<Driver>,
    /// What the upgrade would break: what `--gate` fails on.
    pub breaks: Vec<Break>,
    /// What could not be read or understood.
    pub problems: Vec<Problem>,
    /// What was taken for granted instead of found out.
    pub notes: Vec<String>,
    /// The upgrade that was asked about.
    pub upgrade: Upgrade,
    /// The answer in numbers.
    pub summary: Summary,
}

/// A workload and what becomes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// Where it is written, `file:line`; nothing where only its pods were seen.
    pub source: Option<SourcePosition>,
    /// How many of its pods were seen that are not finished.
    pub pods: usize,
    /// How many pods it asks for; nothing where it does not say.
    pub replicas: Option<u32>,
    /// Whether it can have a user namespace of its own.
    pub user_namespace: UserNamespace,
    /// Its labels, and what was found about them.
    pub selinux: Selinux,
    /// The level of the Pod Security Standards that it keeps to.
    pub pod_security: PodSecurity,
    /// The smallest change that gives it a user namespace of its own; nothing where it has one or
    /// where none is known.
    pub patch: Option<Patch>,
}

/// Whether a workload can have a user namespace of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserNamespace {
    /// The answer.
    pub verdict: Verdict,
    /// Which one it asks for now.
    pub now: Now,
    /// Why, the heaviest reason first.
    pub reasons: Vec<Reason>,
}

/// Whether a workload can have a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Nothing is lost.
    Ready,
    /// It starts, and may miss something.
    Risky,
    /// It does not start.
    Blocked,
}

/// Which user namespace a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Now {
    /// One of its own: `hostUsers: false`.
    Own,
    /// The host's: `hostUsers` is true or not set.
    Host,
}

/// Why a verdict is as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// How much it counts.
    pub weight: Weight,
    /// The field as the object writes it: `spec.template.spec.hostNetwork`.
    pub field: String,
    /// What is in the way, or what may be lost.
    pub cause: String,
    /// What to do about it.
    pub hint: String,
}

/// What a reason weighs; the heaviest decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// The workload does not start in a user namespace.
    Blocks,
    /// It starts, and may miss something.
    Risks,
    /// Worth knowing; it changes no verdict.
    Note,
}

/// SELinux, as far as it is this workload's alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selinux {
    /// The labels that its pods ask for, `:::s0:c1,c2`; empty text is a container that asks for none.
    pub labels: Vec<String>,
    /// Its `seLinuxChangePolicy`, where it has one.
    pub change_policy: Option<String>,
    /// What was found about its own use of volumes.
    pub findings: Vec<SelinuxFinding>,
}

/// Something about one workload's own use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelinuxFinding {
    /// The rule that it is about.
    pub what: SelinuxRule,
    /// The volume, as in [`Volume::id`], or the pod's own name for it.
    pub volume: String,
    /// The field of the volume, as the object writes it.
    pub field: String,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub hint: String,
    /// When it stands in the way.
    pub when: When,
}

/// What was found about a workload's own use of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SelinuxRule {
    /// Containers of one pod need one volume with different labels.
    #[serde(rename = "MultipleSELinuxLabels")]
    MultipleLabels,
    /// Containers with and without a label share a volume within a pod.
    LabelledAndUnlabelled,
    /// A container has options without a level: the level that it gets is not predictable.
    WithoutLevel,
    /// A privileged container has options, which label its volume but not its process.
    PrivilegedWithOptions,
}

/// When something stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Not before the upgrade, but after it.
    AfterUpgrade,
    /// Before and after.
    Already,
    /// Before, and no longer after.
    UntilUpgrade,
    /// Neither before nor after: under the gate `SELinuxMount` only.
    UnderSelinuxMount,
}

/// A change to one object. wardlet does not apply it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The object that it is for.
    #[serde(flatten)]
    pub target: Target,
    /// A strategic merge patch.
    pub body: Value,
    /// How many fields it changes.
    pub fields: usize,
    /// What the workload no longer has afterwards.
    pub gives_up: Vec<String>,
    /// How it gets into effect.
    pub apply: Apply,
    /// The command that applies `body` from a file, where it can be applied to the object as it is.
    pub command: Option<String>,
}

/// The object that a patch is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The group and version of its kind; empty for kinds that are not Kubernetes' own.
    pub api_version: String,
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
}

/// How a change gets into effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Apply {
    /// The object takes it as it is.
    Patch,
    /// The API does not let these fields change: change the manifest and make the object anew.
    Recreate,
    /// The object was not seen, only its pods were.
    AtItsSource,
}

/// Two workloads whose pods cannot both have a volume on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// In what the two differ.
    pub property: Property,
    /// As in [`Volume::id`].
    pub volume: String,
    /// One side.
    pub a: ConflictSide,
    /// The other side.
    pub b: ConflictSide,
    /// How near it is.
    pub severity: Severity,
    /// Why the severity is what it is.
    pub why: String,
    /// When it stands in the way.
    pub when: When,
    /// How many pairs of pods it stands for.
    pub pairs: u64,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictSide {
    /// The workload, or a crowd of pods without an owner.
    #[serde(flatten)]
    pub workload: ObjectRef,
    /// Its label or its policy; empty where it has none.
    pub value: String,
    /// One of the pods that are meant, where pods were seen.
    pub pod: Option<String>,
    /// How many pods are meant.
    pub pods: u64,
}

/// How near a conflict is, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Two of the pods are on one node now.
    OnOneNode,
    /// They can both have the volume on one node only: it is ReadWriteOnce.
    MustMeet,
    /// Nothing keeps them from meeting on one node.
    MayMeet,
    /// They never meet on one node, by what they say themselves.
    CannotMeet,
}

/// A volume and its users.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// `driver/handle` where it is known, `claim namespace/name` where it is not.
    pub id: String,
    /// The PersistentVolume's name, where it was seen.
    pub persistent_volume: Option<String>,
    /// Its claim, `namespace/name`, where it was seen.
    pub claim: Option<String>,
    /// The CSI driver, where there is one.
    pub driver: Option<String>,
    /// Its access modes, by their names in the API.
    pub access_modes: Vec<String>,
    /// Whether it is mounted with a context before and after the upgrade.
    pub mounted_with_context: BeforeAfter,
    /// The workloads that use it.
    pub users: Vec<User>,
}

/// Whether something holds before and after the upgrade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAfter {
    /// Before the upgrade.
    pub before: bool,
    /// After the upgrade.
    pub after: bool,
}

/// A workload's use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The workload.
    #[serde(flatten)]
    pub workload: ObjectRef,
    /// Its label after the upgrade; empty where it has none.
    pub label: String,
    /// `MountOption` or `Recursive`, after the upgrade.
    pub policy: String,
    /// Names of nodes where its pods are.
    pub nodes: Vec<String>,
    /// How many of its pods use the volume.
    pub pods: u64,
}

/// What would settle everything that was found about a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// As in [`Volume::id`].
    pub volume: String,
    /// Each was tried, the best first: equal labels before opting out, then by fields changed.
    pub options: Vec<FixOption>,
}

/// One way to settle everything that was found about a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixOption {
    /// Which kind of fix it is.
    pub how: How,
    /// In words: `give all of them the level s0:c1,c2`.
    pub what: String,
    /// How many fields change in all.
    pub fields: usize,
    /// What the workloads no longer have afterwards.
    pub gives_up: Vec<String>,
    /// The changes, one for each object.
    pub patches: Vec<Patch>,
}

/// The kind of a fix, the better one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum How {
    /// All that share the volume get one label.
    EqualLabels,
    /// They opt out of mounting with a context.
    OptOut,
}

/// A CSI driver that says it can mount with a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// The name of the CSIDriver.
    pub name: String,
    /// The DaemonSet that runs it.
    pub daemon_set: ObjectRef,
    /// Paths of the host that it would need: `/sys/fs/selinux`, `/etc/selinux`.
    pub lacks: Vec<String>,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub hint: String,
    /// Where the DaemonSet is written.
    pub source: Option<SourcePosition>,
}

/// Something that runs before the upgrade and does not after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Break {
    /// The rule that it is about.
    pub what: BreakRule,
    /// Whose pods do not start, or may not.
    pub workloads: Vec<ObjectRef>,
    /// The volume that it is about, as in [`Volume::id`].
    pub volume: Option<String>,
    /// One line that says it all.
    pub text: String,
}

/// Why something does not run after the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BreakRule {
    /// Pods of different labels or policies share a volume.
    Conflict,
    /// One pod needs a volume with two labels.
    MultipleLabels,
    /// A driver that says it can mount with a context, and cannot.
    Driver,
    /// A pod that asks for a user namespace, which was not looked at before.
    UserNamespace,
}

/// What is compared with what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Where the upgrade starts.
    pub from: GatesAt,
    /// Where it leads.
    pub to: GatesAt,
}

/// A version of Kubernetes with its feature gates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatesAt {
    /// `1.37`.
    pub version: String,
    /// Every gate that matters here and whether it is on.
    pub gates: BTreeMap<String, bool>,
}

/// The answer in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All workloads.
    pub workloads: usize,
    /// Those that lose nothing in a user namespace.
    pub ready: usize,
    /// Those that may miss something.
    pub risky: usize,
    /// Those that do not start in one.
    pub blocked: usize,
    /// Those that ask for a user namespace already and start in it.
    pub isolated: usize,
    /// Conflicts but those of pods that cannot meet.
    pub conflicts: usize,
    /// What the upgrade breaks.
    pub breaks: usize,
    /// What could not be read or understood.
    pub problems: usize,
}
