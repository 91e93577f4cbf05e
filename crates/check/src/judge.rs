//! From objects and a question to the whole answer.

use std::collections::{BTreeMap, BTreeSet};

use conflicts::{Engine, PrivilegedOptions, Rules, VolumeId};
use plan::{Facts, Gate, Gates, Intent, KubernetesVersion};
use selinux::{PartialLabel, effective};

use inventory::{ClusterSnapshot, KnownWorkload, Objects};
use types::keys;

use crate::breaks::Findings;
use crate::facts::{Handlers, able_node};
use crate::fixes::Search;
use crate::patch::{Edit, Subject, without_host};
use crate::remarks::{Remarks, enforced};
use crate::report::{
    BeforeAfter, Conflict, Driver, Fix, GatesAt, Now, ObjectRef, Patch, Reason, Report, Selinux,
    SelinuxFinding, SelinuxRule, Severity, Summary, Upgrade, UserNamespace, Verdict, Volume, Weight, When,
    Workload,
};
use crate::shared::UpgradeGates;
use crate::userns::Judge;
use crate::{drivers, pairs, shared};

/// The note where the facts of a node say so.
const DISABLED: &str =
    "SELinux is disabled in the facts of the node: the labels of volumes were not compared";

/// A cluster's version and its gates.
#[derive(Debug, Clone)]
pub struct Version {
    /// The version.
    pub version: KubernetesVersion,
    /// Its gates: the defaults of the version, but for those that were asked for.
    pub gates: Gates,
}

/// What is asked about the objects.
#[derive(Debug, Clone)]
pub struct Question {
    /// The version before the upgrade.
    pub from: Version,
    /// The version after it.
    pub to: Version,
    /// What a node said of itself, where it was asked.
    pub facts: Option<Facts>,
}

/// The whole answer. What the objects hold of live pods goes into it: it can be asked for once.
#[must_use]
pub fn judge(objects: &mut Objects, question: &Question) -> Report {
    let live = objects.take_live();
    let objects = &*objects;
    let found = objects.workloads();
    let snapshot = ClusterSnapshot::of(objects, live, &found);
    let LabelFindings { remarks, conflicts, drivers, volumes, fixes } = match question.selinux() {
        true => labelled(objects, question, &snapshot, &found),
        false => unlabelled(question, &snapshot),
    };
    let (workloads, mut notes) = workloads(objects, question, &found, &snapshot, remarks);
    let findings = Findings {
        workloads: &workloads,
        conflicts: &conflicts,
        volumes: &volumes,
        drivers: &drivers,
        gates: question.gates(),
    };
    let breaks = findings.breaks();
    if !question.selinux() {
        notes.push(DISABLED.to_owned());
    }
    notes.extend(snapshot.notes.iter().cloned());
    notes.extend(objects.all_notes());
    let mut report = Report {
        workloads,
        conflicts,
        volumes,
        fixes,
        drivers,
        breaks,
        problems: objects.all_problems(),
        notes,
        upgrade: Upgrade { from: question.from.shown(), to: question.to.shown() },
        summary: Summary::default(),
    };
    report.summary = summary(&report);
    report
}

/// What SELinux labels do to volumes and their users.
struct LabelFindings {
    remarks: BTreeMap<ObjectRef, BTreeSet<SelinuxFinding>>,
    conflicts: Vec<Conflict>,
    drivers: Vec<Driver>,
    volumes: Vec<Volume>,
    fixes: Vec<Fix>,
}

fn labelled(
    objects: &Objects,
    question: &Question,
    snapshot: &ClusterSnapshot,
    found: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
) -> LabelFindings {
    // One engine at a time: each knows all pods.
    let before = snapshot.engine(question.rules(&question.from.gates));
    let (was, pairs_before) = (enforced(&before), pairs::pairs(&before, snapshot));
    drop(before);
    let after = snapshot.engine(question.rules(&question.to.gates));
    let gates = question.gates();
    let remarks = Remarks { was, after: &after, gates, snapshot }.by_workload(found);
    let conflicts = pairs::conflicts(&pairs_before, &pairs::pairs(&after, snapshot));
    let drivers = drivers::drivers(objects, found);
    let mut reported: BTreeSet<String> = conflicts.iter().map(|conflict| conflict.volume.clone()).collect();
    reported.extend(remarks.values().flatten().map(|finding| finding.volume.clone()));
    let claiming = drivers.iter().map(|driver| driver.name.clone()).collect();
    reported.extend(snapshot.volumes_of(&claiming));
    let volumes = shared::volumes(&after, snapshot, gates, &reported);
    let fixes = fixes(&after, snapshot, found, &conflicts, &remarks);
    LabelFindings { remarks, conflicts, drivers, volumes, fixes }
}

/// Where SELinux is disabled, no volume is mounted with a context and none is relabelled: there is nothing to differ in.
fn unlabelled(question: &Question, snapshot: &ClusterSnapshot) -> LabelFindings {
    let engine = snapshot.engine(question.rules(&question.to.gates));
    let gates = question.gates();
    let mut volumes = shared::volumes(&engine, snapshot, gates, &BTreeSet::new());
    for volume in &mut volumes {
        volume.mounted_with_context = BeforeAfter { before: false, after: false };
    }
    LabelFindings {
        volumes,
        remarks: BTreeMap::new(),
        conflicts: Vec::new(),
        drivers: Vec::new(),
        fixes: Vec::new(),
    }
}

impl Question {
    /// Whether the nodes have SELinux: they are taken to, unless facts say that it is disabled.
    fn selinux(&self) -> bool {
        self.facts.as_ref().is_none_or(|facts| facts.selinux.enabled())
    }

    fn gates(&self) -> UpgradeGates<'_> {
        UpgradeGates { before: &self.from.gates, after: &self.to.gates }
    }

    fn rules(&self, gates: &Gates) -> Rules {
        Rules {
            gates: conflicts::Gates {
                read_write_once_pod: gates.on(Gate::SelinuxMountReadWriteOncePod),
                change_policy: gates.on(Gate::SelinuxChangePolicy),
                mount: gates.on(Gate::SelinuxMount),
            },
            defaults: self.facts.as_ref().and_then(|facts| facts.selinux.defaults.clone()),
            privileged: PrivilegedOptions::Counted,
        }
    }
}

impl Version {
    fn shown(&self) -> GatesAt {
        let gates = self.gates.iter().map(|(gate, state)| (gate.name().to_owned(), state.on));
        GatesAt { version: self.version.to_string(), gates: gates.collect() }
    }
}

fn fixes(
    engine: &Engine,
    snapshot: &ClusterSnapshot,
    workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
    conflicts: &[Conflict],
    remarks: &BTreeMap<ObjectRef, BTreeSet<SelinuxFinding>>,
) -> Vec<Fix> {
    let search = Search::new(engine, snapshot, workloads);
    let open =
        conflicts.iter().filter(|c| c.when != When::UntilUpgrade && c.severity != Severity::CannotMeet);
    let several = remarks.values().flatten().filter(|f| f.what == SelinuxRule::MultipleLabels);
    let volumes: BTreeSet<&str> =
        open.map(|c| c.volume.as_str()).chain(several.map(|f| f.volume.as_str())).collect();
    let ids: Vec<&VolumeId> = snapshot.facts.keys().filter(|id| volumes.contains(id.as_str())).collect();
    ids.into_iter().filter_map(|id| search.fix(id)).collect()
}

fn workloads(
    objects: &Objects,
    question: &Question,
    found: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
    snapshot: &ClusterSnapshot,
    mut remarks: BTreeMap<ObjectRef, BTreeSet<SelinuxFinding>>,
) -> (Vec<Workload>, Vec<String>) {
    let intents: Vec<Intent> =
        found.values().map(|f| objects.resolved(&f.template.intent, f.claims())).collect();
    let names: BTreeSet<String> = intents.iter().map(|intent| intent.runtime_handler.clone()).collect();
    let handlers = Handlers::of(&names, objects, question.facts.as_ref());
    let notes = handlers.notes();
    let facts = question.facts.clone().unwrap_or_else(able_node);
    let judge = Judge::new(facts, able_node(), &question.to.gates, handlers);
    let labels = snapshot.labels();
    let all = found.iter().zip(&intents).map(|((object, found), intent)| {
        let user_namespace = judge.judge(found, intent);
        let selinux = Selinux {
            labels: labels_of(found, labels.get(object)),
            change_policy: found.template.intent.change_policy.map(|policy| policy.to_string()),
            findings: remarks.remove(object).into_iter().flatten().collect(),
        };
        Workload {
            object: object.clone(),
            source: found.source.clone(),
            pods: found.pods,
            replicas: found.resource.and_then(|resource| resource.replicas),
            patch: isolating(&judge, object, found, intent, &user_namespace),
            user_namespace,
            selinux,
            pod_security: found.template.pod_security.clone(),
        }
    });
    (all.collect(), notes)
}

fn labels_of(found: &KnownWorkload<'_>, live: Option<&BTreeSet<String>>) -> Vec<String> {
    let intent = &found.template.intent;
    let own = intent.containers.iter().map(|container| {
        let options = effective(intent.selinux.as_ref(), container.selinux.as_ref());
        options.map(|options| PartialLabel::of(options).to_string()).unwrap_or_default()
    });
    let all: BTreeSet<String> = own.chain(live.into_iter().flatten().cloned()).collect();
    all.into_iter().collect()
}

/// The smallest change that gives a workload a user namespace, if there is one that works.
fn isolating(
    judge: &Judge,
    object: &ObjectRef,
    found: &KnownWorkload<'_>,
    intent: &Intent,
    verdict: &UserNamespace,
) -> Option<Patch> {
    let template = found.template;
    let asks = (verdict.now == Now::Host).then_some(Edit::OwnUsers);
    // Nodes that are not upgraded yet go by ours, and others pass over it.
    let others = template.annotations.iter().filter(|a| a.name != keys::USER_NAMESPACE);
    let annotations = others.map(|a| Edit::WithoutAnnotation(a.name));
    let mut edits: Vec<Edit> = asks.into_iter().chain(annotations).collect();
    let mut gives_up = Vec::new();
    if template.is_windows {
        return None;
    }
    if !judge.starts(intent) {
        let (more, without, changed) = without_host(intent);
        if more.is_empty() || !judge.starts(&changed) {
            return None;
        }
        edits.extend(more);
        gives_up.extend(without);
    }
    let risks = verdict.reasons.iter().filter(|reason| reason.weight == Weight::Risks);
    gives_up.extend(risks.map(|reason: &Reason| reason.cause.clone()));
    let subject = Subject { object, root: &template.root, is_seen: found.source.is_some() };
    (!edits.is_empty()).then(|| subject.patch(&edits, gives_up))
}

fn summary(report: &Report) -> Summary {
    let count = |verdict| report.workloads.iter().filter(|w| w.user_namespace.verdict == verdict).count();
    let starts = |w: &&Workload| w.user_namespace.verdict != Verdict::Blocked;
    let asking = report.workloads.iter().filter(|w| w.user_namespace.now == Now::Own);
    Summary {
        workloads: report.workloads.len(),
        ready: count(Verdict::Ready),
        risky: count(Verdict::Risky),
        blocked: count(Verdict::Blocked),
        isolated: asking.filter(starts).count(),
        conflicts: report.conflicts.iter().filter(|c| c.severity != Severity::CannotMeet).count(),
        breaks: report.breaks.len(),
        problems: report.problems.len(),
    }
}

#[cfg(test)]
mod tests;
