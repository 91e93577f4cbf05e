use std::collections::BTreeMap;

use conflicts::Pod;

use crate::object::{ObjectRef, SourcePosition};
use crate::objects::Objects;
use crate::resources::WorkloadResource;
use crate::template::Template;
use crate::volumes::Claim;

/// A workload with what is known of it.
#[derive(Debug, Clone)]
pub struct KnownWorkload<'a> {
    /// What its pods are made from, or one of them.
    pub template: &'a Template,
    /// The object itself, where it was seen.
    pub resource: Option<&'a WorkloadResource>,
    /// Where the object is written; nothing where only its pods were seen.
    pub source: Option<SourcePosition>,
    /// How many of its pods were seen.
    pub pods: usize,
}

impl KnownWorkload<'_> {
    /// Claims that it makes for each of its pods.
    #[must_use]
    pub fn claims(&self) -> &[(String, Claim)] {
        self.resource.map_or(&[], |resource| resource.claims.as_slice())
    }
}

fn root_of(resources: &BTreeMap<ObjectRef, WorkloadResource>, object: &ObjectRef) -> ObjectRef {
    let owner = resources.get(object).and_then(|resource| resource.owner.as_ref());
    match (object.kind.as_str(), owner) {
        ("ReplicaSet" | "Job", Some(owner)) => owner.clone(),
        _ => object.clone(),
    }
}

impl Objects {
    /// The root controller of an object: the Deployment of a ReplicaSet, the CronJob of a Job. The owner of any
    /// other kind does not write its template.
    pub(crate) fn root(&self, object: &ObjectRef) -> ObjectRef {
        root_of(&self.resources, object)
    }

    /// What pods use of persistent volumes, with the root controller of each. It is moved, not copied: of all that
    /// is kept it is the most.
    #[must_use]
    pub fn take_live(&mut self) -> Vec<(ObjectRef, Box<Pod>)> {
        let Self { resources, pods, .. } = self;
        let using = pods.values_mut().filter_map(|pod| {
            let used = pod.volumes.take()?;
            Some((root_of(resources, pod.owner_or_self()), used))
        });
        using.collect()
    }

    /// Every workload once. Its own template counts most, then that of what it made, then a pod of its.
    #[must_use]
    pub fn workloads(&self) -> BTreeMap<ObjectRef, KnownWorkload<'_>> {
        let mut found: BTreeMap<ObjectRef, KnownWorkload<'_>> = BTreeMap::new();
        let (own, made): (Vec<&WorkloadResource>, Vec<&WorkloadResource>) = self
            .resources
            .values()
            .partition(|resource| self.root(&resource.object_ref) == resource.object_ref);
        for resource in own.into_iter().chain(made) {
            let Some(template) = resource.template.as_ref() else { continue };
            let root = self.root(&resource.object_ref);
            let is_itself = root == resource.object_ref;
            let source = is_itself.then(|| resource.source.clone());
            let resource = Some(resource).filter(|_| is_itself);
            found.entry(root).or_insert(KnownWorkload { template, resource, source, pods: 0 });
        }
        for (owner, template) in &self.samples {
            found.entry(self.root(owner)).or_insert(KnownWorkload {
                template,
                resource: None,
                source: None,
                pods: 0,
            });
        }
        for pod in self.pods.values() {
            let root = self.root(pod.owner_or_self());
            if let Some(workload) = found.get_mut(&root) {
                workload.pods += 1;
                if pod.owner.is_none() {
                    workload.source = Some(pod.source.clone());
                }
            }
        }
        found
    }
}
