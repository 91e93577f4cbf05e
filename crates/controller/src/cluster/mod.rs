//! What is known of a cluster: the conflict engine and the names of all objects, fed in whatever order objects come.
//!
//! - [`Cluster`]: takes objects, and says what has changed since it was asked last.
//! - `known`: the objects of a resource, and a list under way.
//! - [`Summary`]: the conflicts in numbers.

mod known;
mod summary;
mod watch_state;

use std::collections::HashSet;

use api_client::follow::WatchFailure;
use conflicts::{ClaimKey, Effects, Engine, PodKey, Rules, VolumeId};
use k8s_openapi::api::core::v1::PersistentVolume;

use crate::objects::details::{ClaimDetails, PodDetails, VolumeDetails};
use crate::objects::{ClaimObject, DriverObject, NodeObject, PodObject, Watched, name};

pub(crate) use known::Known;
pub(crate) use summary::Summary;
use watch_state::WatchState;

/// Whether details of objects are kept for series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Details {
    Kept,
    Dropped,
}

/// What is kept of a pod that has not finished.
#[derive(Debug)]
pub(crate) struct PodNote {
    /// Whether the engine has it.
    is_in_engine: bool,
    /// Whether it asks for a user namespace of its own.
    is_isolated: bool,
    pub(crate) details: Option<Box<PodDetails>>,
}

/// What is kept of a node.
#[derive(Debug)]
pub(crate) struct NodeNote {
    has_user_namespaces: bool,
}

/// All that is known of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    engine: Engine,
    details: Details,
    pub(crate) pods: Known<PodKey, PodNote>,
    pub(crate) claims: Known<ClaimKey, Option<Box<ClaimDetails>>>,
    pub(crate) volumes: Known<String, Option<Box<VolumeDetails>>>,
    /// Whether each driver can mount with a label.
    pub(crate) drivers: Known<String, bool>,
    pub(crate) nodes: Known<String, NodeNote>,
    watches: [WatchState; Watched::ALL.len()],
    /// The volumes of which a pod has come to ask something else.
    touched: HashSet<VolumeId>,
    /// The pods that have gone.
    gone: Vec<PodKey>,
    /// How many changes there were.
    revision: u64,
}

/// What has changed since it was taken last.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The volumes of which a pod asks something else.
    pub(crate) volumes: HashSet<VolumeId>,
    /// The pods that have gone. One of the same name may have come since.
    pub(crate) gone: Vec<PodKey>,
}

/// How many pods and nodes there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) pods: usize,
    /// In a user namespace of their own.
    pub(crate) isolated_pods: usize,
    pub(crate) nodes: usize,
    /// Whose runtime supports user namespaces.
    pub(crate) able_nodes: usize,
}

impl Cluster {
    pub(crate) fn new(rules: Rules, details: Details) -> Self {
        Self {
            engine: Engine::new(rules),
            details,
            pods: Known::default(),
            claims: Known::default(),
            volumes: Known::default(),
            drivers: Known::default(),
            nodes: Known::default(),
            watches: [const { WatchState::new() }; Watched::ALL.len()],
            touched: HashSet::new(),
            gone: Vec::new(),
            revision: 0,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A number that is another one after each change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// A list of a resource begins.
    pub(crate) fn begin(&mut self, watched: Watched) {
        match watched {
            Watched::Pods => self.pods.begin(),
            Watched::Claims => self.claims.begin(),
            Watched::Volumes => self.volumes.begin(),
            Watched::Drivers => self.drivers.begin(),
            Watched::Nodes => self.nodes.begin(),
        }
    }

    /// A list of a resource is complete: what it did not have is gone.
    pub(crate) fn finish(&mut self, watched: Watched) {
        match watched {
            Watched::Pods => {
                for key in self.pods.finish() {
                    self.forget_pod(&key);
                }
            }
            Watched::Claims => {
                for key in self.claims.finish() {
                    let effects = self.engine.remove_claim(&key);
                    self.note(&effects);
                }
            }
            Watched::Volumes => {
                for name in self.volumes.finish() {
                    let effects = self.engine.remove_volume(&name);
                    self.note(&effects);
                }
            }
            Watched::Drivers => {
                for name in self.drivers.finish() {
                    let effects = self.engine.remove_driver(&name);
                    self.note(&effects);
                }
            }
            Watched::Nodes => drop(self.nodes.finish()),
        }
        self.state_mut(watched).synced();
        self.revision += 1;
    }

    /// The watch of a resource has failed. Returns whether a right is missing and that was not reported yet.
    pub(crate) fn failed(&mut self, watched: Watched, failure: &WatchFailure) -> bool {
        let is_new = self.state_mut(watched).failed(failure);
        self.revision += u64::from(is_new);
        is_new
    }

    /// The server has answered a list of a resource.
    pub(crate) fn answered(&mut self, watched: Watched) {
        self.state_mut(watched).answered();
    }

    /// The server has shown a change of a resource.
    pub(crate) fn followed(&mut self, watched: Watched) {
        self.state_mut(watched).followed();
    }

    fn state_mut(&mut self, watched: Watched) -> &mut WatchState {
        let [pods, claims, volumes, drivers, nodes] = &mut self.watches;
        match watched {
            Watched::Pods => pods,
            Watched::Claims => claims,
            Watched::Volumes => volumes,
            Watched::Drivers => drivers,
            Watched::Nodes => nodes,
        }
    }

    fn state(&self, watched: Watched) -> &WatchState {
        let [pods, claims, volumes, drivers, nodes] = &self.watches;
        match watched {
            Watched::Pods => pods,
            Watched::Claims => claims,
            Watched::Volumes => volumes,
            Watched::Drivers => drivers,
            Watched::Nodes => nodes,
        }
    }

    /// Whether all objects of a resource are known, and the server shows changes of them.
    pub(crate) fn is_readable(&self, watched: Watched) -> bool {
        self.state(watched).is_readable()
    }

    /// The resources that are not known yet, or not shown any more.
    pub(crate) fn unread(&self) -> Vec<Watched> {
        Watched::ALL.into_iter().filter(|watched| !self.is_readable(*watched)).collect()
    }

    /// Whether each resource is known, or known to be refused.
    pub(crate) fn is_ready(&self) -> bool {
        self.watches.iter().all(WatchState::is_settled)
    }

    /// Whether it is ready, and no list is under way that may show that objects are gone. A list that is refused does not
    /// count: it does not end.
    pub(crate) fn is_settled(&self) -> bool {
        let waits = |watched: &Watched| self.is_listing(*watched) && !self.state(*watched).is_refused();
        self.is_ready() && !Watched::ALL.iter().any(waits)
    }

    fn is_listing(&self, watched: Watched) -> bool {
        match watched {
            Watched::Pods => self.pods.is_listing(),
            Watched::Claims => self.claims.is_listing(),
            Watched::Volumes => self.volumes.is_listing(),
            Watched::Drivers => self.drivers.is_listing(),
            Watched::Nodes => self.nodes.is_listing(),
        }
    }

    /// How many objects of a resource are known.
    pub(crate) fn count(&self, watched: Watched) -> usize {
        match watched {
            Watched::Pods => self.pods.len(),
            Watched::Claims => self.claims.len(),
            Watched::Volumes => self.volumes.len(),
            Watched::Drivers => self.drivers.len(),
            Watched::Nodes => self.nodes.len(),
        }
    }

    /// Pods and nodes in numbers.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            pods: self.pods.len(),
            isolated_pods: self.pods.iter().filter(|(_, pod)| pod.is_isolated).count(),
            nodes: self.nodes.len(),
            able_nodes: self.nodes.iter().filter(|(_, node)| node.has_user_namespaces).count(),
        }
    }

    /// The conflicts in numbers.
    pub(crate) fn summary(&self) -> Summary {
        Summary::of(&self.engine)
    }

    /// What has changed since it was taken last.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes { volumes: std::mem::take(&mut self.touched), gone: std::mem::take(&mut self.gone) }
    }

    /// All volumes with conflicts count as changed.
    pub(crate) fn touch_all(&mut self) {
        self.touched.extend(self.engine.contested().map(|(volume, _)| volume.clone()));
    }

    /// A pod has come or changed. One that has finished is as good as gone.
    pub(crate) fn put_pod(&mut self, object: &PodObject) {
        if object.is_finished() {
            return self.remove_pod(object);
        }
        let (key, pod) = (object.key(), object.pod());
        let details = match self.details {
            Details::Kept => PodDetails::of(object).map(Box::new),
            Details::Dropped => None,
        };
        let note = PodNote { is_in_engine: pod.is_some(), is_isolated: object.is_isolated(), details };
        let before = self.pods.put(key.clone(), note);
        let effects = match pod {
            Some(pod) => self.engine.put_pod(&pod),
            // A pod of this name may have gone unnoticed.
            None if before.is_some_and(|before| before.is_in_engine) => self.engine.remove_pod(&key, None),
            None => Effects::default(),
        };
        self.note(&effects);
        self.revision += 1;
    }

    /// A pod has gone.
    pub(crate) fn remove_pod(&mut self, object: &PodObject) {
        let key = object.key();
        if self.pods.remove(&key).is_some() {
            self.forget_pod(&key);
        }
    }

    fn forget_pod(&mut self, key: &PodKey) {
        let effects = self.engine.remove_pod(key, None);
        self.note(&effects);
        self.gone.push(key.clone());
        self.revision += 1;
    }

    /// A claim has come or changed.
    pub(crate) fn put_claim(&mut self, object: &ClaimObject) {
        let claim = object.claim();
        let details = self.keeps_details().then(|| Box::new(ClaimDetails::of(object)));
        self.claims.put(claim.key.clone(), details);
        let effects = self.engine.put_claim(&claim);
        self.note(&effects);
        self.revision += 1;
    }

    /// A claim has gone.
    pub(crate) fn remove_claim(&mut self, object: &ClaimObject) {
        let key = object.key();
        self.claims.remove(&key);
        let effects = self.engine.remove_claim(&key);
        self.note(&effects);
        self.revision += 1;
    }

    /// A persistent volume has come or changed.
    pub(crate) fn put_volume(&mut self, object: &PersistentVolume) {
        let Some(volume) = inventory::engine_volume(object) else { return self.remove_volume(object) };
        let details = self.keeps_details().then(|| Box::new(VolumeDetails::of(object, volume.id.clone())));
        self.volumes.put(volume.name.clone(), details);
        let effects = self.engine.put_volume(&volume);
        self.note(&effects);
        self.revision += 1;
    }

    /// A persistent volume has gone.
    pub(crate) fn remove_volume(&mut self, object: &PersistentVolume) {
        let name = name(&object.metadata).to_owned();
        self.volumes.remove(&name);
        let effects = self.engine.remove_volume(&name);
        self.note(&effects);
        self.revision += 1;
    }

    /// A CSI driver has come or changed.
    pub(crate) fn put_driver(&mut self, object: &DriverObject) {
        let driver = object.driver();
        self.drivers.put(driver.name.clone(), driver.selinux_mount);
        let effects = self.engine.put_driver(&driver);
        self.note(&effects);
        self.revision += 1;
    }

    /// A CSI driver has gone.
    pub(crate) fn remove_driver(&mut self, object: &DriverObject) {
        let name = name(&object.metadata).to_owned();
        self.drivers.remove(&name);
        let effects = self.engine.remove_driver(&name);
        self.note(&effects);
        self.revision += 1;
    }

    /// A node has come or changed.
    pub(crate) fn put_node(&mut self, object: &NodeObject) {
        let note = NodeNote { has_user_namespaces: object.has_user_namespaces() };
        self.nodes.put(name(&object.metadata).to_owned(), note);
        self.revision += 1;
    }

    /// A node has gone.
    pub(crate) fn remove_node(&mut self, object: &NodeObject) {
        self.nodes.remove(&name(&object.metadata).to_owned());
        self.revision += 1;
    }

    fn keeps_details(&self) -> bool {
        self.details == Details::Kept
    }

    fn note(&mut self, effects: &Effects) {
        self.touched.extend(effects.volumes().cloned());
    }
}

#[cfg(test)]
mod tests;
