//! What would settle the conflicts of a volume: each way is tried before it is named.

use std::collections::{BTreeMap, BTreeSet};

use conflicts::{ChangePolicy, Engine, Pod, PodKey, PodVolume, Says, VolumeId};
use plan::{Container, Stage};

use super::crowd::first_of;
use super::patch::{Edit, Subject};
use super::report::{Fix, FixOption, How, Who};
use super::scene::{Actor, Scene};
use super::workloads::Found;

/// No more levels than this are tried on one volume.
const MAX_LEVELS: usize = 8;

pub(super) struct Search<'a> {
    engine: &'a Engine,
    scene: &'a Scene,
    workloads: &'a BTreeMap<Who, Found<'a>>,
    /// Pods that there is something to say of alone, by volume.
    remarked: BTreeMap<&'a VolumeId, Vec<&'a PodKey>>,
    actors: BTreeMap<&'a Who, Vec<&'a Actor>>,
}

/// What is to change, by workload.
type Edits = BTreeMap<Who, Vec<Edit>>;

impl<'a> Search<'a> {
    pub(super) fn new(engine: &'a Engine, scene: &'a Scene, workloads: &'a BTreeMap<Who, Found<'a>>) -> Self {
        let mut remarked: BTreeMap<&VolumeId, Vec<&PodKey>> = BTreeMap::new();
        engine.remarks().for_each(|remark| remarked.entry(remark.volume).or_default().push(remark.pod));
        let mut actors: BTreeMap<&Who, Vec<&Actor>> = BTreeMap::new();
        scene.actors.values().for_each(|actor| actors.entry(&actor.who).or_default().push(actor));
        Self { engine, scene, workloads, remarked, actors }
    }

    /// All that was found to work for this volume, the best first.
    pub(super) fn fix(&self, volume: &VolumeId) -> Option<Fix> {
        let actors = self.actors_on(volume);
        let levels = self.levels(volume, &actors);
        let equal = levels.iter().map(|level| (How::EqualLabels, self.equal(volume, &actors, level)));
        let candidates = equal.chain([(How::OptOut, self.opt_out(volume))]);
        let working = candidates.filter(|(_, edits)| !edits.is_empty() && self.settles(volume, edits));
        let mut options: Vec<FixOption> = working.map(|(how, edits)| self.option(how, &edits)).collect();
        options.sort_by(|a, b| (a.how, a.fields, &a.what).cmp(&(b.how, b.fields, &b.what)));
        options.dedup_by(|a, b| a.what == b.what);
        (!options.is_empty()).then(|| Fix { volume: volume.to_string(), options })
    }

    /// The pods that mount the volume; those that need it with two labels ask nothing of it.
    fn actors_on(&self, volume: &VolumeId) -> Vec<&Actor> {
        let asking = self.engine.users(volume).flat_map(|users| users.pods());
        let remarked = self.remarked.get(volume).into_iter().flatten().copied();
        let keys: BTreeSet<_> = asking.chain(remarked).collect();
        keys.into_iter().filter_map(|key| self.scene.actors.get(key)).collect()
    }

    /// The levels that any of them has, those of most workloads first.
    fn levels(&self, volume: &VolumeId, actors: &[&Actor]) -> Vec<String> {
        let mut uses: BTreeMap<String, BTreeSet<&Who>> = BTreeMap::new();
        for actor in actors {
            for name in self.names_of(volume, &actor.pod) {
                let mounts = actor.pod.volumes.iter().filter(|v| v.name == name).flat_map(|v| &v.mounts);
                let levels = mounts.filter_map(|mount| mount.options.as_ref()?.level());
                for level in levels {
                    uses.entry(level.to_owned()).or_default().insert(&actor.who);
                }
            }
        }
        let mut levels: Vec<(usize, String)> = uses.into_iter().map(|(l, who)| (who.len(), l)).collect();
        levels.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        levels.into_iter().take(MAX_LEVELS).map(|(_, level)| level).collect()
    }

    /// What a pod calls the volume.
    fn names_of(&self, volume: &VolumeId, pod: &Pod) -> Vec<String> {
        let leads = |v: &&PodVolume| self.scene.volume_of(pod, v) == Some(volume);
        pod.volumes.iter().filter(leads).map(|v| v.name.clone()).collect()
    }

    /// Every container that mounts the volume gets this level.
    fn equal(&self, volume: &VolumeId, actors: &[&Actor], level: &str) -> Edits {
        let mut edits = Edits::new();
        for actor in actors {
            let Some(found) = self.workloads.get(&actor.who) else { continue };
            let names = self.names_of(volume, &actor.pod);
            let own = edits.entry(actor.who.clone()).or_default();
            let has =
                |mount: &conflicts::Mount| mount.options.as_ref().and_then(|o| o.level()) == Some(level);
            let used = actor.pod.volumes.iter().filter(|v| names.contains(&v.name));
            if !used.flat_map(|v| &v.mounts).all(has) {
                own.extend(levels_of(found, &names, level));
            }
            if actor.pod.change_policy == Some(ChangePolicy::Recursive) {
                own.push(Edit::WithoutPolicy);
            }
            own.sort();
            own.dedup();
        }
        edits.retain(|_, own| !own.is_empty());
        edits
    }

    /// Everybody whose label would be mounted relabels instead.
    fn opt_out(&self, volume: &VolumeId) -> Edits {
        let mounting = self.engine.users(volume).filter(|u| u.ask.policy() == ChangePolicy::MountOption);
        let actors = mounting.flat_map(|users| users.pods()).filter_map(|key| self.scene.actors.get(key));
        actors.map(|actor| (actor.who.clone(), vec![Edit::Recursive])).collect()
    }

    /// Whether nothing is left to say of the volume with these edits, and nothing new of others.
    fn settles(&self, volume: &VolumeId, edits: &Edits) -> bool {
        let changed = edits.iter().flat_map(|(who, edits)| {
            let found = self.workloads.get(who);
            let actors = self.actors.get(who).into_iter().flatten();
            actors.filter_map(move |actor| Some(edited(&actor.pod, edits, found?)))
        });
        let mut pods: Vec<Pod> = changed.collect();
        let used = pods.iter().flat_map(|pod| pod.volumes.iter().map(move |volume| (pod, volume)));
        let used: BTreeSet<&VolumeId> = used.filter_map(|(pod, v)| self.scene.volume_of(pod, v)).collect();
        let others = used.iter().flat_map(|id| self.engine.users(id)).flat_map(|users| users.pods());
        let others: BTreeSet<&PodKey> = others.collect();
        let others = others.into_iter().filter_map(|key| self.scene.actors.get(key));
        let others = others.filter(|actor| !edits.contains_key(&actor.who));
        pods.extend(others.map(|actor| (*actor.pod).clone()));
        let trial = self.scene.engine_of(self.engine.rules().clone(), &pods);
        let is_quiet = |id: &VolumeId| trial.count_on(id) == 0;
        let is_left =
            !is_quiet(volume) || used.iter().any(|id| !is_quiet(id) && self.engine.count_on(id) == 0);
        let multiple = |says: &Says| matches!(says, Says::MultipleLabels { .. });
        !is_left && !trial.remarks().any(|remark| remark.volume == volume && multiple(&remark.says))
    }

    fn option(&self, how: How, edits: &Edits) -> FixOption {
        let patches: Vec<_> = edits
            .iter()
            .filter_map(|(who, edits)| {
                let found = self.workloads.get(who)?;
                let root = &found.template.root;
                let subject = Subject { who, root, is_seen: found.source.is_some() };
                Some(subject.patch(edits, Vec::new()))
            })
            .collect();
        let names: Vec<String> = edits.keys().map(|who| format!("{} {}", who.kind, who.name)).collect();
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
fn mounting<'a>(found: &'a Found<'_>, names: &'a [String]) -> impl Iterator<Item = &'a Container> {
    let all = found.template.intent.containers.iter();
    all.filter(|c| c.mounts.iter().any(|mount| names.contains(&mount.volume)))
}

fn levels_of(found: &Found<'_>, names: &[String], level: &str) -> Vec<Edit> {
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
fn edited(pod: &Pod, edits: &[Edit], found: &Found<'_>) -> Pod {
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
fn relevel(pod: &mut Pod, found: &Found<'_>, level: &str, is_meant: impl Fn(&Container) -> bool) {
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
