//! What `check` keeps of the objects that it is shown: what it needs of each, never the object itself,
//! so that a dump of any size fits into memory.

use std::collections::{BTreeMap, BTreeSet};

use manifest::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use manifest::{Finding, Listed, Object, PodRef, Position, Reading, Resource, Unknowns};
use plan::{Gates, HandlerFacts, KubernetesVersion};

use super::makers::Maker;
use super::pods::{LivePod, is_finished};
use super::report::{Place, Problem, Who};
use super::template::Template;
use super::volumes::{Claim, StoredVolume};

/// No more problems than this are kept one by one; the rest is a number.
const MAX_PROBLEMS: usize = 1_000;
/// Nor more notes.
const MAX_NOTES: usize = 100;

/// What the objects are looked at for.
#[derive(Debug, Clone)]
pub(crate) struct Lens {
    /// The version whose Pod Security Standards hold: the one after the upgrade.
    pub(crate) version: KubernetesVersion,
    /// The gates after the upgrade.
    pub(crate) gates: Gates,
}

/// Everything that was read, in any order.
#[derive(Debug)]
pub(crate) struct Objects {
    lens: Lens,
    pub(super) makers: BTreeMap<Who, Maker>,
    /// By themselves: a dump may show one more than once.
    pub(super) pods: BTreeMap<Who, LivePod>,
    /// One pod of each owner that pods name, for owners that are not among the objects.
    pub(super) samples: BTreeMap<Who, Template>,
    pub(super) claims: BTreeMap<(String, String), Claim>,
    pub(super) volumes: BTreeMap<String, StoredVolume>,
    /// The volume that names a claim as its own.
    pub(super) bound: BTreeMap<(String, String), String>,
    /// Whether a driver can mount with a context.
    pub(super) drivers: BTreeMap<String, bool>,
    /// Which driver makes a class's volumes.
    pub(super) storage_classes: BTreeMap<String, String>,
    /// A runtime class's handler.
    pub(super) runtime_classes: BTreeMap<String, String>,
    /// What each node says of its runtime's handlers.
    pub(super) nodes: BTreeMap<String, BTreeMap<String, HandlerFacts>>,
    pub(super) problems: BTreeSet<Problem>,
    /// How many problems there are besides.
    pub(super) more_problems: usize,
    pub(super) notes: BTreeSet<String>,
    /// How many notes there are besides.
    pub(super) more_notes: usize,
    /// Objects of kinds that say nothing here, by kind.
    pub(super) skipped: BTreeMap<String, usize>,
    pub(super) finished_pods: usize,
    read: usize,
}

/// Who says that a text holds objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The user, who named it.
    Named,
    /// Nobody: it was found in a directory, where other things are too.
    Found,
}

/// A text, or a part cut out of one.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    /// The text's name for messages.
    pub(crate) file: &'a str,
    pub(crate) origin: Origin,
    pub(crate) bytes: &'a [u8],
    /// Where in the text the part begins.
    pub(crate) at: Position,
    /// What it is in its list: `items[3]`, or nothing.
    pub(crate) prefix: String,
    /// What its list says of it.
    pub(crate) listed: Listed,
}

impl Piece<'_> {
    /// A place in the part as a place in the text.
    fn place(&self, at: Position) -> Place {
        let column = if at.line <= 1 { at.column + self.at.column.saturating_sub(1) } else { at.column };
        Place { file: self.file.to_owned(), line: self.at.line.saturating_sub(1) + at.line, column }
    }

    fn problem(&self, finding: &Finding) -> Problem {
        let field = match (self.prefix.as_str(), finding.path.as_str()) {
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        };
        Problem {
            place: Some(self.place(finding.at)),
            field,
            cause: finding.problem.to_string(),
            hint: finding.hint().unwrap_or_default(),
        }
    }
}

impl Objects {
    pub(crate) fn new(lens: Lens) -> Self {
        Self {
            lens,
            makers: BTreeMap::new(),
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
    pub(crate) fn take(&mut self, piece: &Piece<'_>) {
        let reading = manifest::read_listed(piece.file, piece.bytes, Unknowns::Warn, &piece.listed);
        for skipped in &reading.skipped {
            *self.skipped.entry(skipped.kind.clone()).or_default() += 1;
        }
        if piece.origin == Origin::Found && is_something_else(&reading) {
            self.add_note(format!("{} holds no objects", piece.file));
            return;
        }
        reading.findings.iter().for_each(|finding| self.add_problem(piece.problem(finding)));
        for object in &reading.objects {
            self.add(object, piece);
        }
    }

    /// Remembers something that could not be read: a kind that a cluster does not show us.
    pub(crate) fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.insert(problem);
        } else {
            self.more_problems += 1;
        }
    }

    /// Remembers something that was taken for granted.
    pub(crate) fn add_note(&mut self, note: impl Into<String>) {
        if self.notes.len() < MAX_NOTES {
            self.notes.insert(note.into());
        } else {
            self.more_notes += 1;
        }
    }

    /// How many objects were understood.
    pub(crate) fn count(&self) -> usize {
        self.read
    }

    fn add(&mut self, object: &Object, piece: &Piece<'_>) {
        self.read += 1;
        object.warnings.iter().for_each(|w| self.add_note(format!("read over: {w}")));
        // What a server gave away it has checked, by rules that may be newer than ours.
        if object.resource.metadata().uid.is_none() {
            let faults = manifest::validate(object, &self.lens.gates);
            faults.iter().for_each(|fault| self.add_problem(piece.problem(fault)));
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
                self.storage_classes.insert(name, class.provisioner.clone());
            }
            Resource::RuntimeClass(class) => {
                self.runtime_classes.insert(name, class.handler.clone());
            }
            Resource::Node(node) => {
                self.nodes.insert(name, super::nodes::handlers(node));
            }
            Resource::ConfigMap(_) | Resource::Secret(_) => {}
            _ => self.add_pods(object, piece),
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

    fn add_pods(&mut self, object: &Object, piece: &Piece<'_>) {
        let Some(pod) = object.pod() else { return };
        let source = piece.place(object.tree.at);
        let added = match &object.resource {
            Resource::Pod(whole) if is_finished(whole) => {
                self.finished_pods += 1;
                Ok(())
            }
            Resource::Pod(_) => self.add_pod(&pod, source),
            _ => Maker::of(object, &pod, &self.lens, source).map(|maker| {
                self.makers.insert(maker.who.clone(), maker);
            }),
        };
        let findings = added.err().into_iter().flatten();
        findings.for_each(|finding| self.add_problem(piece.problem(&finding)));
    }

    fn add_pod(&mut self, pod: &PodRef<'_>, source: Place) -> Result<(), Vec<Finding>> {
        let live = LivePod::of(pod, source)?;
        if !self.samples.contains_key(live.owner_or_self()) {
            let template = Template::of(pod, &self.lens)?;
            self.samples.insert(live.owner_or_self().clone(), template);
        }
        self.pods.insert(live.who.clone(), live);
        Ok(())
    }
}

/// Whether a text makes no claim to be objects: nothing in it says what it is.
fn is_something_else(reading: &Reading) -> bool {
    let is_headless = |f: &Finding| f.problem == manifest::Problem::Required && f.path == "apiVersion";
    reading.objects.is_empty() && reading.skipped.is_empty() && reading.findings.iter().all(is_headless)
}
