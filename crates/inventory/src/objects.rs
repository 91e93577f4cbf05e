//! What is kept of the objects that are read: what is needed of each, never the object itself, so that a dump of any
//! size fits into memory.

use std::collections::{BTreeMap, BTreeSet};

use manifest::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use manifest::{Finding, Object, PodRef, Reading, Resource, Unknowns};
use plan::HandlerFacts;

use crate::chunk::{Lens, ManifestChunk, Origin};
use crate::object::{ObjectRef, Problem, SourcePosition};
use crate::pods::{LivePod, is_finished};
use crate::resources::WorkloadResource;
use crate::template::Template;
use crate::volumes::{Claim, StoredVolume};

/// No more problems than this are kept one by one; the rest is a number.
const MAX_PROBLEMS: usize = 1_000;
/// Nor more notes.
const MAX_NOTES: usize = 100;

/// Everything that was read, in any order.
#[derive(Debug)]
pub struct Objects {
    lens: Lens,
    pub(crate) resources: BTreeMap<ObjectRef, WorkloadResource>,
    /// By themselves: a dump may show one more than once.
    pub(crate) pods: BTreeMap<ObjectRef, LivePod>,
    /// One pod of each owner that pods name, for owners that are not among the objects.
    pub(crate) samples: BTreeMap<ObjectRef, Template>,
    pub(crate) claims: BTreeMap<(String, String), Claim>,
    pub(crate) volumes: BTreeMap<String, StoredVolume>,
    /// The volume that names a claim as its own.
    pub(crate) bound: BTreeMap<(String, String), String>,
    /// Whether a driver can mount with a context.
    pub(crate) drivers: BTreeMap<String, bool>,
    /// Which driver makes a class's volumes.
    pub(crate) storage_classes: BTreeMap<String, String>,
    /// A runtime class's handler.
    pub(crate) runtime_classes: BTreeMap<String, String>,
    /// What each node says of its runtime's handlers.
    pub(crate) nodes: BTreeMap<String, BTreeMap<String, HandlerFacts>>,
    pub(crate) problems: BTreeSet<Problem>,
    /// How many problems there are besides.
    pub(crate) more_problems: usize,
    pub(crate) notes: BTreeSet<String>,
    /// How many notes there are besides.
    pub(crate) more_notes: usize,
    /// Objects of kinds that say nothing here, by kind.
    pub(crate) skipped: BTreeMap<String, usize>,
    pub(crate) finished_pods: usize,
    read: usize,
}

impl Objects {
    /// Nothing read yet.
    #[must_use]
    pub fn new(lens: Lens) -> Self {
        Self {
            lens,
            resources: BTreeMap::new(),
            pods: BTreeMap::new(),
            samples: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            bound: BTreeMap::new(),
            drivers: BTreeMap::new(),
            storage_classes: BTreeMap::new(),
            runtime_classes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            problems: BTreeSet::new(),
            more_problems: 0,
            notes: BTreeSet::new(),
            more_notes: 0,
            skipped: BTreeMap::new(),
            finished_pods: 0,
            read: 0,
        }
    }

    /// Takes what it needs of a text or of a part of one: YAML or JSON, objects or lists of them.
    pub fn take(&mut self, chunk: &ManifestChunk<'_>) {
        let reading = manifest::read_listed(chunk.file, chunk.bytes, Unknowns::Warn, &chunk.listed);
        for skipped in &reading.skipped {
            *self.skipped.entry(skipped.kind.clone()).or_default() += 1;
        }
        if chunk.origin == Origin::Found && is_something_else(&reading) {
            self.add_note(format!("{} holds no objects", chunk.file));
            return;
        }
        reading.findings.iter().for_each(|finding| self.add_problem(chunk.problem(finding)));
        for object in &reading.objects {
            self.add(object, chunk);
        }
    }

    /// Remembers something that could not be read: a kind that a cluster does not show us.
    pub fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.insert(problem);
        } else {
            self.more_problems += 1;
        }
    }

    /// Remembers something that was taken for granted.
    pub fn add_note(&mut self, note: impl Into<String>) {
        if self.notes.len() < MAX_NOTES {
            self.notes.insert(note.into());
        } else {
            self.more_notes += 1;
        }
    }

    /// How many objects were understood.
    #[must_use]
    pub fn count(&self) -> usize {
        self.read
    }

    /// Whether a CSI driver of this name was read that says it can mount with an SELinux context.
    #[must_use]
    pub fn mounts_with_context(&self, driver: &str) -> bool {
        self.drivers.get(driver) == Some(&true)
    }

    /// What each node that was read says of its runtime handlers, by the node's name.
    #[must_use]
    pub fn runtime_handlers(&self) -> &BTreeMap<String, BTreeMap<String, HandlerFacts>> {
        &self.nodes
    }

    /// What could not be read, with a last line for those that are only counted.
    #[must_use]
    pub fn all_problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.problems.iter().cloned().collect();
        if self.more_problems > 0 {
            let cause = format!("{} more problems are not listed", self.more_problems);
            problems.push(Problem { cause, ..Problem::default() });
        }
        problems
    }

    /// What was assumed, ignored or only counted.
    #[must_use]
    pub fn all_notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.notes.iter().cloned().collect();
        if self.more_notes > 0 {
            notes.push(format!("{} more notes are not listed", self.more_notes));
        }
        if self.finished_pods > 0 {
            notes.push(format!("pods that have ended and do not count: {}", self.finished_pods));
        }
        let kinds: Vec<String> = self.skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        if !kinds.is_empty() {
            notes.push(format!("ignored (not relevant here): {}", kinds.join(", ")));
        }
        notes
    }

    fn add(&mut self, object: &Object, chunk: &ManifestChunk<'_>) {
        self.read += 1;
        object.warnings.iter().for_each(|w| self.add_note(format!("read over: {w}")));
        // What a server gave away it has checked, by rules that may be newer than ours.
        if object.resource.metadata().uid.is_none() {
            let faults = manifest::validate(object, &self.lens.gates);
            faults.iter().for_each(|fault| self.add_problem(chunk.problem(fault)));
        }
        let name = object.name().to_owned();
        match &object.resource {
            Resource::PersistentVolumeClaim(claim) => self.add_claim(object, claim),
            Resource::PersistentVolume(volume) => {
                StoredVolume::of(volume).into_iter().for_each(|stored| self.add_volume(name.clone(), stored));
            }
            Resource::CsiDriver(driver) => {
                self.drivers.insert(name, driver.spec.se_linux_mount == Some(true));
            }
            Resource::StorageClass(class) => {
                let driver = manifest::migrated_provisioner(&class.provisioner).unwrap_or(&class.provisioner);
                self.storage_classes.insert(name, driver.to_owned());
            }
            Resource::RuntimeClass(class) => {
                self.runtime_classes.insert(name, class.handler.clone());
            }
            Resource::Node(node) => {
                self.nodes.insert(name, crate::nodes::handlers(node));
            }
            Resource::ConfigMap(_) | Resource::Secret(_) => {}
            _ => self.add_pods(object, chunk),
        }
    }

    fn add_claim(&mut self, object: &Object, claim: &PersistentVolumeClaim) {
        self.claims.insert((object.namespace().to_owned(), object.name().to_owned()), Claim::of(claim));
    }

    fn add_volume(&mut self, name: String, stored: StoredVolume) {
        if let Some(claim) = stored.engine.claim.as_ref() {
            let key = (claim.key.namespace().to_owned(), claim.key.name().to_owned());
            self.bound.insert(key, name.clone());
        }
        self.volumes.insert(name, stored);
    }

    fn add_pods(&mut self, object: &Object, chunk: &ManifestChunk<'_>) {
        let Some(pod) = object.pod() else { return };
        let source = chunk.place(object.tree.at);
        let added = match &object.resource {
            Resource::Pod(whole) if is_finished(whole) => {
                self.finished_pods += 1;
                Ok(())
            }
            Resource::Pod(_) => self.add_pod(&pod, source),
            _ => WorkloadResource::of(object, &pod, &self.lens, source).map(|resource| {
                self.resources.insert(resource.object_ref.clone(), resource);
            }),
        };
        let findings = added.err().into_iter().flatten();
        findings.for_each(|finding| self.add_problem(chunk.problem(&finding)));
    }

    fn add_pod(&mut self, pod: &PodRef<'_>, source: SourcePosition) -> Result<(), Vec<Finding>> {
        let live = LivePod::of(pod, source)?;
        if !self.samples.contains_key(live.owner_or_self()) {
            let template = Template::of(pod, &self.lens)?;
            self.samples.insert(live.owner_or_self().clone(), template);
        }
        self.pods.insert(live.object_ref.clone(), live);
        Ok(())
    }
}

/// Whether a text makes no claim to be objects: nothing in it says what it is.
fn is_something_else(reading: &Reading) -> bool {
    let is_headless = |f: &Finding| f.problem == manifest::Problem::Required && f.path == "apiVersion";
    reading.objects.is_empty() && reading.skipped.is_empty() && reading.findings.iter().all(is_headless)
}
