use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Node as ClusterNode, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec,
    Secret,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::finding::{Finding, Problem};
use crate::place::Path;
use crate::tree::Node;
use crate::typed::{Fault, typed};

/// An object of the API, read without a doubt, with the text's tree for places.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The file it came from, as the caller named it.
    pub file: Arc<str>,
    /// Where it is in its document: empty, or `items[3]`.
    pub prefix: String,
    /// Its text.
    pub tree: Node,
    /// What it is.
    pub resource: Resource,
    /// Fields of a newer API that were ignored; none unless the reader allows unknown fields.
    pub warnings: Vec<Finding>,
}

macro_rules! resources {
    ($($variant:ident: $type:ty,)*) => {
        /// The kinds of objects that we read.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)]
        pub enum Resource {
            $($variant(Box<$type>),)*
        }

        impl Resource {
            /// Its kind.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => <$type as k8s_openapi::Resource>::KIND,)*
                }
            }

            /// Its metadata.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$variant(object) => &object.metadata,)*
                }
            }
        }

        impl Resource {
            /// Reads the kind of this group; `None` when we do not read it.
            pub(crate) fn read(api_version: &str, kind: &str, tree: &Node, prefix: &str) -> Option<Read> {
                let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
                match (group, kind) {
                    $((<$type as k8s_openapi::Resource>::GROUP, <$type as k8s_openapi::Resource>::KIND) => {
                        let served = <$type as k8s_openapi::Resource>::API_VERSION;
                        if served != api_version {
                            return Some(Read::other_version(tree, prefix, api_version, served));
                        }
                        let (object, faults) = typed::<$type>(tree, prefix);
                        let resource = object.map(|object| Self::$variant(Box::new(object)));
                        Some(Read { resource, faults })
                    })*
                    _ => None,
                }
            }
        }
    };
}

/// What came of reading an object.
pub(crate) struct Read {
    pub(crate) resource: Option<Resource>,
    pub(crate) faults: Vec<Fault>,
}

impl Read {
    fn other_version(tree: &Node, prefix: &str, found: &str, served: &'static str) -> Self {
        let under = Path::Under(prefix);
        let path = under.field("apiVersion");
        let problem = Problem::NotSupported { value: found.to_owned(), allowed: vec![served] };
        let fault = Fault { at: tree.place_of(&path), path: path.to_string(), names: Vec::new(), problem };
        Self { resource: None, faults: vec![fault] }
    }
}

resources! {
    Pod: Pod,
    ConfigMap: ConfigMap,
    Secret: Secret,
    PersistentVolumeClaim: PersistentVolumeClaim,
    PersistentVolume: PersistentVolume,
    StorageClass: StorageClass,
    CsiDriver: CSIDriver,
    Node: ClusterNode,
    RuntimeClass: RuntimeClass,
    Deployment: Deployment,
    StatefulSet: StatefulSet,
    DaemonSet: DaemonSet,
    ReplicaSet: ReplicaSet,
    Job: Job,
    CronJob: CronJob,
}

/// A pod, or what a workload makes its pods from.
#[derive(Debug, Clone, Copy)]
pub struct PodRef<'a> {
    /// The object it is in.
    pub object: &'a Object,
    /// The pod's own metadata, where it has some.
    pub metadata: Option<&'a ObjectMeta>,
    /// What it asks for.
    pub spec: &'a PodSpec,
    /// The fields that lead from the object to the pod: none, or `spec.template`.
    pub(crate) steps: &'static [&'static str],
}

impl Object {
    /// The pod or pod template in it, if it is of a kind that has one and has it.
    #[must_use]
    pub fn pod(&self) -> Option<PodRef<'_>> {
        const TEMPLATE: &[&str] = &["spec", "template"];
        const CRON: &[&str] = &["spec", "jobTemplate", "spec", "template"];
        let of = |template, steps| self.pod_of(template, steps);
        match &self.resource {
            Resource::Pod(pod) => Some(PodRef {
                object: self,
                metadata: Some(&pod.metadata),
                spec: pod.spec.as_ref()?,
                steps: &[],
            }),
            Resource::Deployment(o) => of(&o.spec.template, TEMPLATE),
            Resource::StatefulSet(o) => of(&o.spec.template, TEMPLATE),
            Resource::DaemonSet(o) => of(&o.spec.template, TEMPLATE),
            Resource::ReplicaSet(o) => of(o.spec.template.as_ref()?, TEMPLATE),
            Resource::Job(o) => of(&o.spec.as_ref()?.template, TEMPLATE),
            Resource::CronJob(o) => of(&o.spec.job_template.spec.as_ref()?.template, CRON),
            _ => None,
        }
    }

    fn pod_of<'a>(
        &'a self,
        template: &'a PodTemplateSpec,
        steps: &'static [&'static str],
    ) -> Option<PodRef<'a>> {
        let spec = template.spec.as_ref()?;
        Some(PodRef { object: self, metadata: template.metadata.as_ref(), spec, steps })
    }

    /// Its name; empty when it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.resource.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace, `default` when it says none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.resource.metadata().namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default")
    }
}

impl<'a> PodRef<'a> {
    /// Names of the volumes that a StatefulSet makes claims for, each under its pods' own names.
    pub fn claim_templates(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let templates = match &self.object.resource {
            Resource::StatefulSet(set) => set.spec.volume_claim_templates.as_deref().unwrap_or_default(),
            _ => &[],
        };
        templates.iter().filter_map(|claim| claim.metadata.name.as_deref())
    }

    /// A field of the pod's spec, or the spec itself with a dot, as the object writes it:
    /// `spec.template.spec.hostUsers`.
    #[must_use]
    pub fn field(&self, name: &str) -> String {
        let steps: String = self.steps.iter().map(|step| format!("{step}.")).collect();
        format!("{steps}spec.{name}")
    }
}
