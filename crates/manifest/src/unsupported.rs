//! Fields that the API takes and that we do not run, so that they are refused and never read over.
//! docs/podspec.md lists every field of a pod; a test keeps the two the same.

use crate::finding::{Finding, Problem};
use crate::object::PodRef;
use crate::place::{Path, under};
use crate::tree::{Node, Value};

const IN_TREE: &str = "a volume plugin that Kubernetes took out or is taking out: use its CSI driver";
const WINDOWS: &str = "for Windows only";
const CLAIMS: &str = "devices of dynamic resource allocation are not run here";
const OWNERS: &str = "owners of single files are an alpha feature that is off";
const ALPHA: &str = "an alpha feature that is off";

/// Fields of a pod's spec; `[]` is every item.
pub(crate) const OF_POD: &[(&str, &str)] = &[
    ("resourceClaims", CLAIMS),
    ("resources.claims", CLAIMS),
    ("volumes[].awsElasticBlockStore", IN_TREE),
    ("volumes[].azureDisk", IN_TREE),
    ("volumes[].azureFile", IN_TREE),
    ("volumes[].cephfs", IN_TREE),
    ("volumes[].cinder", IN_TREE),
    ("volumes[].flexVolume", IN_TREE),
    ("volumes[].flocker", IN_TREE),
    ("volumes[].gcePersistentDisk", IN_TREE),
    ("volumes[].gitRepo", IN_TREE),
    ("volumes[].glusterfs", IN_TREE),
    ("volumes[].photonPersistentDisk", IN_TREE),
    ("volumes[].portworxVolume", IN_TREE),
    ("volumes[].quobyte", IN_TREE),
    ("volumes[].rbd", IN_TREE),
    ("volumes[].scaleIO", IN_TREE),
    ("volumes[].storageos", IN_TREE),
    ("volumes[].vsphereVolume", IN_TREE),
    ("volumes[].configMap.defaultUser", OWNERS),
    ("volumes[].configMap.items[].user", OWNERS),
    ("volumes[].secret.defaultUser", OWNERS),
    ("volumes[].secret.items[].user", OWNERS),
    ("volumes[].downwardAPI.defaultUser", OWNERS),
    ("volumes[].downwardAPI.items[].user", OWNERS),
    ("volumes[].projected.defaultUser", OWNERS),
    ("volumes[].projected.sources[].configMap.items[].user", OWNERS),
    ("volumes[].projected.sources[].secret.items[].user", OWNERS),
    ("volumes[].projected.sources[].downwardAPI.items[].user", OWNERS),
    ("volumes[].projected.sources[].serviceAccountToken.user", OWNERS),
    ("volumes[].projected.sources[].clusterTrustBundle.user", OWNERS),
    ("volumes[].projected.sources[].podCertificate.user", OWNERS),
];

/// Fields of every container of every list.
pub(crate) const OF_CONTAINER: &[(&str, &str)] = &[
    ("resources.claims", CLAIMS),
    ("volumeMounts[].bindMountOptions", ALPHA),
    ("livenessProbe.httpGet.protocol", ALPHA),
    ("readinessProbe.httpGet.protocol", ALPHA),
    ("startupProbe.httpGet.protocol", ALPHA),
    ("lifecycle.postStart.httpGet.protocol", ALPHA),
    ("lifecycle.preStop.httpGet.protocol", ALPHA),
    ("livenessProbe.grpc.mode", ALPHA),
    ("readinessProbe.grpc.mode", ALPHA),
    ("startupProbe.grpc.mode", ALPHA),
];

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// What a pod has set that we do not run.
#[must_use]
pub fn unsupported(pod: &PodRef<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let object = pod.object;
    under(&Path::Under(&object.prefix), pod.steps, &mut |root| {
        let spec = root.field("spec");
        let steps = pod.steps.iter().chain(&["spec"]);
        let Some(tree) = steps.into_iter().try_fold(&object.tree, |node, step| node.get(step)) else {
            return;
        };
        let mut walk = Walk { pod, found: &mut found };
        OF_POD.iter().for_each(|(pattern, why)| walk.step(tree, &spec, pattern, why));
        for list in CONTAINERS {
            for (pattern, why) in OF_CONTAINER {
                walk.step(tree, &spec, &format!("{list}[].{pattern}"), why);
            }
        }
        if tree.get("os").and_then(|os| os.text("name")) == Some("windows") {
            walk.add(&spec.field("os"), WINDOWS);
        }
        walk.media(tree, &spec);
    });
    found
}

struct Walk<'a, 'b> {
    pod: &'a PodRef<'a>,
    found: &'b mut Vec<Finding>,
}

impl Walk<'_, '_> {
    fn step(&mut self, node: &Node, path: &Path<'_>, pattern: &str, why: &str) {
        let (step, rest) = pattern.split_once('.').map_or((pattern, ""), |(step, rest)| (step, rest));
        let name = step.trim_end_matches("[]");
        let Some(next) = node.get(name).filter(|n| n.value != Value::Null) else { return };
        let path = path.field(name);
        match (&next.value, rest) {
            (Value::List(items), rest) if step.ends_with("[]") => {
                items.iter().enumerate().for_each(|(i, item)| self.step(item, &path.index(i), rest, why));
            }
            (_, "") => self.add(&path, why),
            (_, rest) => self.step(next, &path, rest, why),
        }
    }

    /// The API takes any word for a medium, a node knows these.
    fn media(&mut self, tree: &Node, spec: &Path<'_>) {
        let Some(Value::List(volumes)) = tree.get("volumes").map(|node| &node.value) else { return };
        for (index, volume) in volumes.iter().enumerate() {
            let medium = volume.get("emptyDir").and_then(|dir| dir.text("medium")).unwrap_or_default();
            if !matches!(medium, "" | "Memory" | "HugePages") && !medium.starts_with("HugePages-") {
                let list = spec.field("volumes");
                let volume = list.index(index);
                let dir = volume.field("emptyDir");
                self.add(&dir.field("medium"), "use Memory, HugePages or HugePages-SIZE, or leave it out");
            }
        }
    }

    fn add(&mut self, path: &Path<'_>, why: &str) {
        let object = self.pod.object;
        self.found.push(Finding {
            file: object.file.clone(),
            at: object.tree.place_of(path),
            path: path.to_string(),
            problem: Problem::forbidden(why),
        });
    }
}

#[cfg(test)]
mod tests;
