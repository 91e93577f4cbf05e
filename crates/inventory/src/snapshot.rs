//! The pods and volumes as the conflict engine takes them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use conflicts::{
    AccessMode, Claim, ClaimKey, ClaimReference, CsiDriver, Engine, Node, PersistentVolume, Pod, PodKey,
    PodVolume, PodVolumeSource, Rules, VolumeId, VolumeSource,
};

use selinux::PartialLabel;

use crate::object::ObjectRef;
use crate::objects::Objects;
use crate::pods::pod_of;
use crate::workloads::KnownWorkload;

/// No more pods of a StatefulSet than this are made up: each has volumes of its own.
const MAX_ORDINALS: u32 = 100;
/// The driver of a claim's volume when no object names one.
const UNKNOWN_DRIVER: &str = "unknown";

/// Pods of one workload that are the same but for their names.
#[derive(Debug, Clone)]
pub struct EquivalentPods {
    /// The workload.
    pub workload: ObjectRef,
    /// One of the pods.
    pub pod: Box<Pod>,
    /// How many they are.
    pub count: u64,
    /// Whether they were seen, or only what they are made from.
    pub is_live: bool,
}

impl EquivalentPods {
    /// The node that they are on.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match &self.pod.placement.node {
            Node::Bound(name) | Node::Pinned(name) => Some(name),
            Node::Unbound => None,
        }
    }
}

/// A volume, for people.
#[derive(Debug, Clone, Default)]
pub struct VolumeFacts {
    /// The PersistentVolume's name, where it was read.
    pub persistent_volume: Option<String>,
    /// Its claim, `namespace/name`.
    pub claim: Option<String>,
    /// The CSI driver, where there is one.
    pub driver: Option<String>,
    /// Its access modes.
    pub access_modes: Vec<AccessMode>,
}

/// Pods and volumes as the conflict engine takes them: those that were read, and those that workloads without pods
/// would make.
#[derive(Debug, Default)]
pub struct ClusterSnapshot {
    /// Equivalent pods, by the pod that stands for them.
    pub equivalents: HashMap<PodKey, EquivalentPods>,
    claims: Vec<Claim>,
    volumes: Vec<PersistentVolume>,
    drivers: BTreeMap<String, bool>,
    /// What is known of each volume.
    pub facts: BTreeMap<VolumeId, VolumeFacts>,
    /// Where claims lead to: places among `claims` and `volumes`.
    leads_to: HashMap<ClaimKey, (usize, usize)>,
    /// What was taken for granted.
    pub notes: BTreeSet<String>,
}

impl ClusterSnapshot {
    /// Sets everything up. `live` is what [`Objects::take_live`] returned, `workloads` what [`Objects::workloads`] did.
    #[must_use]
    pub fn of(
        objects: &Objects,
        live: Vec<(ObjectRef, Box<Pod>)>,
        workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
    ) -> Self {
        let mut snapshot = Self::default();
        snapshot.add_live(live, workloads);
        snapshot.add_templates(workloads);
        snapshot.add_storage(objects);
        snapshot.add_missing_claims(objects);
        snapshot.add_migrated();
        snapshot.add_drivers(objects);
        snapshot.index();
        snapshot
    }

    /// An engine that knows all of it.
    #[must_use]
    pub fn engine(&self, rules: Rules) -> Engine {
        let mut engine = self.storage(rules);
        for equivalent in self.equivalents.values() {
            let _ = engine.put_pod(&equivalent.pod);
        }
        engine
    }

    fn drivers_of(&self, rules: Rules) -> Engine {
        let mut engine = Engine::new(rules);
        for (name, selinux_mount) in &self.drivers {
            let driver = CsiDriver { name: name.clone(), selinux_mount: *selinux_mount };
            let _ = engine.put_driver(&driver);
        }
        engine
    }

    /// An engine that knows the volumes, and no pods yet.
    fn storage(&self, rules: Rules) -> Engine {
        let mut engine = self.drivers_of(rules);
        for volume in &self.volumes {
            let _ = engine.put_volume(volume);
        }
        for claim in &self.claims {
            let _ = engine.put_claim(claim);
        }
        engine
    }

    /// Where a pod's volume leads to.
    #[must_use]
    pub fn volume_of(&self, pod: &Pod, volume: &PodVolume) -> Option<&VolumeId> {
        if let PodVolumeSource::Migrated { id, .. } = &volume.source {
            return self.facts.get_key_value(id).map(|(id, _)| id);
        }
        let (_, at) = self.lead(pod, volume)?;
        self.volumes.get(at).map(|volume| &volume.id)
    }

    fn lead(&self, pod: &Pod, volume: &PodVolume) -> Option<(usize, usize)> {
        let PodVolumeSource::Claim(name) = &volume.source else { return None };
        self.leads_to.get(&ClaimKey::new(pod.key.namespace(), name.as_str())).copied()
    }

    fn index(&mut self) {
        let volumes = self.volumes.iter().enumerate();
        let places: HashMap<&str, usize> = volumes.map(|(at, volume)| (volume.name.as_str(), at)).collect();
        let claims = self.claims.iter().enumerate();
        let leads = claims.filter_map(|(at, claim)| {
            let volume = places.get(claim.volume.as_deref()?)?;
            Some((claim.key.clone(), (at, *volume)))
        });
        self.leads_to = leads.collect();
    }

    /// An engine that knows these pods and what they use.
    #[must_use]
    pub fn engine_of(&self, rules: Rules, pods: &[Pod]) -> Engine {
        let mut engine = self.drivers_of(rules);
        for pod in pods {
            for (claim, volume) in pod.volumes.iter().filter_map(|volume| self.lead(pod, volume)) {
                let _ = self.volumes.get(volume).map(|volume| engine.put_volume(volume));
                let _ = self.claims.get(claim).map(|claim| engine.put_claim(claim));
            }
        }
        pods.iter().for_each(|pod| drop(engine.put_pod(pod)));
        engine
    }

    /// The volumes of these drivers.
    pub fn volumes_of(&self, drivers: &BTreeSet<String>) -> impl Iterator<Item = String> {
        let named = self.facts.iter().filter(|(_, f)| f.driver.as_ref().is_some_and(|d| drivers.contains(d)));
        named.map(|(id, _)| id.to_string())
    }

    /// The labels that pods were seen to ask for, by workload.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<ObjectRef, BTreeSet<String>> {
        let mut labels: BTreeMap<ObjectRef, BTreeSet<String>> = BTreeMap::new();
        for equivalent in self.equivalents.values().filter(|equivalent| equivalent.is_live) {
            let mounts = equivalent.pod.volumes.iter().flat_map(|volume| &volume.mounts);
            let asked = mounts.filter_map(|mount| mount.options.as_ref());
            let asked = asked.map(|options| PartialLabel::of(options).to_string());
            labels.entry(equivalent.workload.clone()).or_default().extend(asked);
        }
        labels
    }

    /// Pods that are the same on the same node are one entry.
    fn add_live(
        &mut self,
        live: Vec<(ObjectRef, Box<Pod>)>,
        workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
    ) {
        let mut groups: HashMap<(ObjectRef, Option<String>), Vec<PodKey>> = HashMap::new();
        for (workload, mut pod) in live {
            let node = node_of(&pod);
            if let Some(node) = node.clone().filter(|_| was_scheduled(workloads.get(&workload))) {
                pod.placement.node = Node::Bound(node);
            }
            let group = groups.entry((workload.clone(), node)).or_default();
            let same =
                group.iter().find(|key| self.equivalents.get(key).is_some_and(|a| is_same(&a.pod, &pod)));
            match same.cloned().and_then(|key| self.equivalents.get_mut(&key)) {
                Some(equivalent) => equivalent.count += 1,
                None => {
                    group.push(pod.key.clone());
                    self.equivalents
                        .insert(pod.key.clone(), EquivalentPods { workload, pod, count: 1, is_live: true });
                }
            }
        }
    }

    /// What a workload without pods would make.
    fn add_templates(&mut self, workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>) {
        for (workload, found) in workloads.iter().filter(|(_, found)| found.pods == 0) {
            let Some(resource) = found.resource.filter(|resource| !resource.is_idle) else { continue };
            let replicas = resource.replicas.unwrap_or(1);
            if resource.claims.is_empty() {
                self.add_template(workload, found, None, u64::from(replicas));
            } else {
                (0..replicas.min(MAX_ORDINALS)).for_each(|n| self.add_template(workload, found, Some(n), 1));
            }
        }
    }

    fn add_template(
        &mut self,
        workload: &ObjectRef,
        found: &KnownWorkload<'_>,
        ordinal: Option<u32>,
        count: u64,
    ) {
        let suffix = ordinal.map(|n| format!("-{n}")).unwrap_or_default();
        let key =
            PodKey::new(workload.namespace.as_str(), format!("{}/{}{suffix}", workload.kind, workload.name));
        let mut pod = pod_of(&found.template.intent, key);
        if pod.volumes.is_empty() {
            return;
        }
        pod.placement = found.template.placement.clone();
        let made: Vec<&String> = found.claims().iter().map(|(name, _)| name).collect();
        for volume in pod.volumes.iter_mut().filter(|v| made.contains(&&v.name)) {
            if let PodVolumeSource::Claim(name) = &mut volume.source {
                name.push_str(&suffix);
            }
        }
        let equivalent =
            EquivalentPods { workload: workload.clone(), pod: Box::new(pod), count, is_live: false };
        self.equivalents.insert(equivalent.pod.key.clone(), equivalent);
    }

    fn add_storage(&mut self, objects: &Objects) {
        for volume in objects.volumes.values().map(|stored| &stored.engine) {
            let driver = match &volume.source {
                VolumeSource::Csi { driver } => Some(driver.clone()),
                _ => None,
            };
            let facts = VolumeFacts {
                persistent_volume: Some(volume.name.clone()),
                claim: volume.claim.as_ref().map(|claim| claim.key.to_string()),
                driver,
                access_modes: volume.access_modes.clone(),
            };
            self.facts.insert(volume.id.clone(), facts);
            self.volumes.push(volume.clone());
        }
        for ((namespace, name), claim) in &objects.claims {
            let key = ClaimKey::new(namespace.as_str(), name.as_str());
            let bound = claim.volume.clone().filter(|name| objects.volumes.contains_key(name));
            let bound = bound.or_else(|| objects.bound.get(&(namespace.clone(), name.clone())).cloned());
            let volume = bound.or_else(|| Some(self.made_up(objects, &key, Some(claim))));
            self.claims.push(Claim { key, uid: claim.uid.clone(), volume });
        }
    }

    /// Claims that pods name and that are not among the objects.
    fn add_missing_claims(&mut self, objects: &Objects) {
        let mut missing: BTreeSet<(String, String)> = BTreeSet::new();
        for equivalent in self.equivalents.values() {
            for volume in &equivalent.pod.volumes {
                let PodVolumeSource::Claim(name) = &volume.source else { continue };
                let key = (equivalent.pod.key.namespace().to_owned(), name.clone());
                if !objects.claims.contains_key(&key) {
                    missing.insert(key);
                }
            }
        }
        for (namespace, name) in missing {
            let key = ClaimKey::new(namespace.as_str(), name.as_str());
            let bound = objects.bound.get(&(namespace, name)).cloned();
            let volume = bound.or_else(|| Some(self.made_up(objects, &key, None)));
            self.claims.push(Claim { key, uid: None, volume });
        }
    }

    /// Volumes of CSI drivers that pods name themselves.
    fn add_migrated(&mut self) {
        for volume in self.equivalents.values().flat_map(|equivalent| &equivalent.pod.volumes) {
            let PodVolumeSource::Migrated { id, driver, access_modes } = &volume.source else { continue };
            let (driver, access_modes) = (Some(driver.clone()), access_modes.clone());
            let facts = VolumeFacts { driver, access_modes, ..VolumeFacts::default() };
            self.facts.entry(id.clone()).or_insert(facts);
        }
    }

    /// The volume that a claim may be given one day.
    fn made_up(
        &mut self,
        objects: &Objects,
        key: &ClaimKey,
        claim: Option<&crate::volumes::Claim>,
    ) -> String {
        let class = claim.and_then(|claim| claim.storage_class.as_ref());
        let driver = class.and_then(|class| objects.storage_classes.get(class));
        let driver = driver.cloned().unwrap_or_else(|| UNKNOWN_DRIVER.to_owned());
        let access_modes = claim.map(|claim| claim.access_modes.clone()).unwrap_or_default();
        let (name, id) = (format!("claim {key}"), VolumeId::new("claim", &key.to_string()));
        self.facts.insert(
            id.clone(),
            VolumeFacts {
                persistent_volume: None,
                claim: Some(key.to_string()),
                driver: Some(driver.clone()).filter(|driver| driver != UNKNOWN_DRIVER),
                access_modes: access_modes.clone(),
            },
        );
        self.volumes.push(PersistentVolume {
            name: name.clone(),
            id,
            source: VolumeSource::Csi { driver },
            access_modes,
            claim: Some(ClaimReference { key: key.clone(), uid: None }),
        });
        name
    }

    /// A driver of which nothing was shown is taken to be able: a conflict too many can be looked into,
    /// one too few cannot. Where other drivers were shown, one that was not does not exist.
    fn add_drivers(&mut self, objects: &Objects) {
        self.drivers.clone_from(&objects.drivers);
        let named = self.volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::Csi { driver } => Some(driver.clone()),
            _ => None,
        });
        let own = self.facts.values().filter_map(|facts| facts.driver.clone());
        for driver in named.chain(own).collect::<BTreeSet<String>>() {
            if driver == UNKNOWN_DRIVER {
                self.drivers.insert(driver, true);
            } else if objects.drivers.is_empty() {
                self.notes.insert(format!(
                    "the CSIDriver {driver} was not shown: it is taken to mount with a context"
                ));
                self.drivers.insert(driver, true);
            }
        }
    }
}

fn node_of(pod: &Pod) -> Option<String> {
    match &pod.placement.node {
        Node::Bound(name) | Node::Pinned(name) => Some(name.clone()),
        Node::Unbound => None,
    }
}

/// Whether its pods got their nodes from a scheduler: what they are made from names none.
fn was_scheduled(found: Option<&KnownWorkload<'_>>) -> bool {
    let resource = found.and_then(|found| found.resource);
    let template = resource.and_then(|resource| resource.template.as_ref());
    template.is_some_and(|template| template.placement.node == Node::Unbound)
}

fn is_same(a: &Pod, b: &Pod) -> bool {
    a.volumes == b.volumes && a.change_policy == b.change_policy && a.placement == b.placement
}
