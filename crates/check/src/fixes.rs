//! What would settle the conflicts of a volume: each way is tried before it is named.

use std::collections::{BTreeMap, BTreeSet};

use conflicts::{ChangePolicy, Engine, Pod, PodKey, PodVolume, Says, VolumeId};
use inventory::{ClusterSnapshot, EquivalentPods, KnownWorkload};
use plan::{Container, Stage};

use crate::crowd::first_of;
use crate::patch::{Edit, Subject};
use crate::report::{Fix, FixOption, How, ObjectRef};

/// No more levels than this are tried on one volume.
const MAX_LEVELS: usize = 8;

pub(crate) struct Search<'a> {
    engine: &'a Engine,
    snapshot: &'a ClusterSnapshot,
    workloads: &'a BTreeMap<ObjectRef, KnownWorkload<'a>>,
    /// Pods that there is something to say of alone, by volume.
    remarked: BTreeMap<&'a VolumeId, Vec<&'a PodKey>>,
    equivalents: BTreeMap<&'a ObjectRef, Vec<&'a EquivalentPods>>,
}

/// What is to change, by workload.
type Edits = BTreeMap<ObjectRef, Vec<Edit>>;

impl<'a> Search<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        snapshot: &'a ClusterSnapshot,
        workloads: &'a BTreeMap<ObjectRef, KnownWorkload<'a>>,
    ) -> Self {
        let mut remarked: BTreeMap<&VolumeId, Vec<&PodKey>> = BTreeMap::new();
        engine.remarks().for_each(|remark| remarked.entry(remark.volume).or_default().push(remark.pod));
        let mut equivalents: BTreeMap<&ObjectRef, Vec<&EquivalentPods>> = BTreeMap::new();
        snapshot
            .equivalents
            .values()
            .for_each(|equivalent| equivalents.entry(&equivalent.workload).or_default().push(equivalent));
        Self { engine, snapshot, workloads, remarked, equivalents }
    }

    /// All that was found to work for this volume, the best first.
    pub(crate) fn fix(&self, volume: &VolumeId) -> Option<Fix> {
        let equivalents = self.equivalents_on(volume);
        let levels = self.levels(volume, &equivalents);
        let equal = levels.iter().map(|level| (How::EqualLabels, self.equal(volume, &equivalents, level)));
        let candidates = equal.chain([(How::OptOut, self.opt_out(volume))]);
        let working = candidates.filter(|(_, edits)| !edits.is_empty() && self.settles(volume, edits));
        let mut options: Vec<FixOption> = working.map(|(how, edits)| self.option(how, &edits)).collect();
        options.sort_by(|a, b| (a.how, a.fields, &a.what).cmp(&(b.how, b.fields, &b.what)));
        options.dedup_by(|a, b| a.what == b.what);
        (!options.is_empty()).then(|| Fix { volume: volume.to_string(), options })
    }

    /// The pods that mount the volume; those that need it with two labels ask nothing of it.
    fn equivalents_on(&self, volume: &VolumeId) -> Vec<&EquivalentPods> {
        let asking = self.engine.users(volume).flat_map(|users| users.pods());
        let remarked = self.remarked.get(volume).into_iter().flatten().copied();
        let keys: BTreeSet<_> = asking.chain(remarked).collect();
        keys.into_iter().filter_map(|key| self.snapshot.equivalents.get(key)).collect()
    }

    /// The levels that any of them has, those of most workloads first.
    fn levels(&self, volume: &VolumeId, equivalents: &[&EquivalentPods]) -> Vec<String> {
        let mut uses: BTreeMap<String, BTreeSet<&ObjectRef>> = BTreeMap::new();
        for equivalent in equivalents {
            for name in self.names_of(volume, &equivalent.pod) {
                let mounts = equivalent.pod.volumes.iter().filter(|v| v.name == name).flat_map(|v| &v.mounts);
                let levels = mounts.filter_map(|mount| mount.options.as_ref()?.level());
                for level in levels {
                    uses.entry(level.to_owned()).or_default().insert(&equivalent.workload);
                }
            }
        }
        let mut levels: Vec<(usize, String)> =
            uses.into_iter().map(|(l, workloads)| (workloads.len(), l)).collect();
        levels.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        levels.into_iter().take(MAX_LEVELS).map(|(_, level)| level).collect()
    }

    /// What a pod calls the volume.
    fn names_of(&self, volume: &VolumeId, pod: &Pod) -> Vec<String> {
        let leads = |v: &&PodVolume| self.snapshot.volume_of(pod, v) == Some(volume);
        pod.volumes.iter().filter(leads).map(|v| v.name.clone()).collect()
    }

    /// Every container that mounts the volume gets this level.
    fn equal(&self, volume: &VolumeId, equivalents: &[&EquivalentPods], level: &str) -> Edits {
        let mut edits = Edits::new();
        for equivalent in equivalents {
            let Some(found) = self.workloads.get(&equivalent.workload) else { continue };
            let names = self.names_of(volume, &equivalent.pod);
            let own = edits.entry(equivalent.workload.clone()).or_default();
            let has =
                |mount: &conflicts::Mount| mount.options.as_ref().and_then(|o| o.level()) == Some(level);
            let used = equivalent.pod.volumes.iter().filter(|v| names.contains(&v.name));
            if !used.flat_map(|v| &v.mounts).all(has) {
                own.extend(levels_of(found, &names, level));
            }
            if equivalent.pod.change_policy == Some(ChangePolicy::Recursive) {
                own.push(Edit::WithoutPolicy);
            }
            own.sort();
            own.dedup();
        }
        edits.retain(|_, own| !own.is_empty());
        edits
    }

    /// All workloads whose label would be mounted relabel instead.
    fn opt_out(&self, volume: &VolumeId) -> Edits {
        let mounting = self.engine.users(volume).filter(|u| u.ask.policy() == ChangePolicy::MountOption);
        let equivalents =
            mounting.flat_map(|users| users.pods()).filter_map(|key| self.snapshot.equivalents.get(key));
        equivalents.map(|equivalent| (equivalent.workload.clone(), vec![Edit::Recursive])).collect()
    }

    /// Whether nothing is left to say of the volume with these edits, and nothing new of others.
    fn settles(&self, volume: &VolumeId, edits: &Edits) -> bool {
        let changed = edits.iter().flat_map(|(workload, edits)| {
            let found = self.workloads.get(workload);
            let equivalents = self.equivalents.get(workload).into_iter().flatten();
            equivalents.filter_map(move |equivalent| Some(edited(&equivalent.pod, edits, found?)))
        });
        let mut pods: Vec<Pod> = changed.collect();
        let used = pods.iter().flat_map(|pod| pod.volumes.iter().map(move |volume| (pod, volume)));
        let used: BTreeSet<&VolumeId> = used.filter_map(|(pod, v)| self.snapshot.volume_of(pod, v)).collect();
        let others = used.iter().flat_map(|id| self.engine.users(id)).flat_map(|users| users.pods());
        let others: BTreeSet<&PodKey> = others.collect();
        let others = others.into_iter().filter_map(|key| self.snapshot.equivalents.get(key));
        let others = others.filter(|equivalent| !edits.contains_key(&equivalent.workload));
        pods.extend(others.map(|equivalent| (*equivalent.pod).clone()));
        let trial = self.snapshot.engine_of(self.engine.rules().clone(), &pods);
        let is_quiet = |id: &VolumeId| trial.count_on(id) == 0;
        let is_left =
            !is_quiet(volume) || used.iter().any(|id| !is_quiet(id) && self.engine.count_on(id) == 0);
        let multiple = |says: &Says| matches!(says, Says::MultipleLabels { .. });
        !is_left && !trial.remarks().any(|remark| remark.volume == volume && multiple(&remark.says))
    }

    fn option(&self, how: How, edits: &Edits) -> FixOption {
        let patches: Vec<_> = edits
            .iter()
            .filter_map(|(workload, edits)| {
                let found = self.workloads.get(workload)?;
                let root = &found.template.root;
                let subject = Subject { object: workload, root, is_seen: found.source.is_some() };
                Some(subject.patch(edits, Vec::new()))
            })
            .collect();
        let names: Vec<String> =
            edits.keys().map(|workload| format!("{} {}", workload.kind, workload.name)).collect();
        let (what, gives_up) = match how {
            How::EqualLabels => {
                let level = edits.values().flatten().find_map(level_in).unwrap_or_default();
                let kept = "their level no longer keeps those that share the volume apart";
                (format!("give {} the level {level}", first_of(&names)), vec![kept.to_owned()])
            }
            How::OptOut => {
                let slow = "the volume is relabelled file by file whenever such a pod starts";
                let turns = "pods of different labels take the files from each other in turn";
                let what = format!("set seLinuxChangePolicy: Recursive for {}", first_of(&names));
                (what, vec![slow.to_owned(), turns.to_owned()])
            }
        };
        FixOption { how, what, fields: edits.values().map(Vec::len).sum(), gives_up, patches }
    }
}

fn level_in(edit: &Edit) -> Option<&str> {
    match edit {
        Edit::Level(level) | Edit::ContainerLevel { level, .. } => Some(level),
        _ => None,
    }
}

/// The containers that mount any of these volumes.
fn mounting<'a>(found: &'a KnownWorkload<'_>, names: &'a [String]) -> impl Iterator<Item = &'a Container> {
    let all = found.template.intent.containers.iter();
    all.filter(|c| c.mounts.iter().any(|mount| names.contains(&mount.volume)))
}

fn levels_of(found: &KnownWorkload<'_>, names: &[String], level: &str) -> Vec<Edit> {
    let edit = |container: &Container| match (&container.selinux, container.stage) {
        (None, _) => Edit::Level(level.to_owned()),
        (Some(_), stage) => Edit::ContainerLevel {
            list: match stage {
                Stage::Init => "initContainers",
                Stage::Main => "containers",
                Stage::Ephemeral => "ephemeralContainers",
            },
            container: container.name.clone(),
            level: level.to_owned(),
        },
    };
    let has = |container: &Container| {
        let options = container.selinux.as_ref().or(found.template.intent.selinux.as_ref());
        options.and_then(|options| options.level()) == Some(level)
    };
    mounting(found, names).filter(|container| !has(container)).map(edit).collect()
}

/// A pod as it would be made after these edits of its workload.
fn edited(pod: &Pod, edits: &[Edit], found: &KnownWorkload<'_>) -> Pod {
    let mut pod = pod.clone();
    for edit in edits {
        match edit {
            Edit::Recursive => pod.change_policy = Some(ChangePolicy::Recursive),
            Edit::WithoutPolicy => pod.change_policy = None,
            Edit::Level(level) => relevel(&mut pod, found, level, |c| c.selinux.is_none()),
            Edit::ContainerLevel { container, level, .. } => {
                relevel(&mut pod, found, level, |c| c.name == *container);
            }
            _ => {}
        }
    }
    pod
}

/// The mounts of these containers get this level. Where a pod has other mounts than what it was made
/// from, all of its mounts do: its options then are the pod's own.
fn relevel(pod: &mut Pod, found: &KnownWorkload<'_>, level: &str, is_meant: impl Fn(&Container) -> bool) {
    for volume in &mut pod.volumes {
        let containers = found.template.intent.containers.iter();
        let of_volume =
            containers.flat_map(|c| c.mounts.iter().filter(|m| m.volume == volume.name).map(move |_| c));
        let meant: Vec<bool> = of_volume.map(&is_meant).collect();
        let is_known = meant.len() == volume.mounts.len();
        for (index, mount) in volume.mounts.iter_mut().enumerate() {
            if !is_known || meant.get(index) == Some(&true) {
                mount.options.get_or_insert_default().level = Some(level.to_owned());
            }
        }
    }
}
