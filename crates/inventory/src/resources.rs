use manifest::k8s_openapi::api::batch::v1::Job;
use manifest::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use manifest::{Finding, Object, PodRef, Resource};

use crate::chunk::Lens;
use crate::object::{ObjectRef, SourcePosition};
use crate::template::Template;
use crate::volumes::Claim;

/// What is kept of a workload resource: an object that makes pods.
#[derive(Debug, Clone)]
pub struct WorkloadResource {
    pub(crate) object_ref: ObjectRef,
    /// Its controller: a ReplicaSet's Deployment, a Job's CronJob.
    pub owner: Option<ObjectRef>,
    /// Nothing for what its owner keeps of the past: a ReplicaSet without pods.
    pub(crate) template: Option<Template>,
    /// Claims that a StatefulSet makes for each of its pods, by the volume's name.
    pub(crate) claims: Vec<(String, Claim)>,
    /// How many pods it asks for, where it says so or has a default.
    pub replicas: Option<u32>,
    /// Whether it makes no pods now: scaled to none, suspended or done.
    pub(crate) is_idle: bool,
    pub(crate) source: SourcePosition,
}

impl WorkloadResource {
    pub(crate) fn of(
        object: &Object,
        pod: &PodRef<'_>,
        lens: &Lens,
        source: SourcePosition,
    ) -> Result<Self, Vec<Finding>> {
        let owner = controller(object.resource.metadata(), object.namespace());
        let replicas = replicas(&object.resource);
        let is_idle = replicas == Some(0) || is_done(&object.resource);
        let template = match owner {
            Some(_) if is_idle => None,
            _ => Some(Template::of(pod, lens)?),
        };
        Ok(Self {
            object_ref: object_ref(object),
            owner,
            template,
            claims: claims(&object.resource),
            replicas,
            is_idle,
            source,
        })
    }
}

/// Kind, namespace and name of an object.
pub(crate) fn object_ref(object: &Object) -> ObjectRef {
    let generated = || object.resource.metadata().generate_name.clone().unwrap_or_default();
    let name = Some(object.name().to_owned()).filter(|n| !n.is_empty()).unwrap_or_else(generated);
    ObjectRef { kind: object.resource.kind().to_owned(), namespace: object.namespace().to_owned(), name }
}

/// The object that controls one with such metadata. A node owns the mirrors of its static pods and
/// makes none, so that it is not a controller here.
pub(crate) fn controller(metadata: &ObjectMeta, namespace: &str) -> Option<ObjectRef> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|o| o.controller == Some(true) && o.kind != "Node")?;
    Some(ObjectRef { kind: owner.kind.clone(), namespace: namespace.to_owned(), name: owner.name.clone() })
}

fn claims(resource: &Resource) -> Vec<(String, Claim)> {
    let Resource::StatefulSet(set) = resource else { return Vec::new() };
    let templates = set.spec.volume_claim_templates.iter().flatten();
    templates.filter_map(|claim| Some((claim.metadata.name.clone()?, Claim::of(claim)))).collect()
}

fn replicas(resource: &Resource) -> Option<u32> {
    let stated = match resource {
        Resource::Deployment(o) => o.spec.replicas.unwrap_or(1),
        Resource::StatefulSet(o) => o.spec.replicas.unwrap_or(1),
        Resource::ReplicaSet(o) => o.spec.replicas.unwrap_or(1),
        Resource::Job(o) => o.spec.as_ref()?.parallelism.unwrap_or(1),
        _ => return None,
    };
    u32::try_from(stated).ok()
}

fn is_done(resource: &Resource) -> bool {
    match resource {
        Resource::CronJob(cron) => cron.spec.suspend == Some(true),
        Resource::Job(job) => job.spec.as_ref().is_some_and(|s| s.suspend == Some(true)) || is_over(job),
        _ => false,
    }
}

fn is_over(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}
