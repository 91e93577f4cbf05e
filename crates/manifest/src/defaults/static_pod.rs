use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Toleration, Volume};

use super::defaulted;
use crate::finding::{Finding, Problem};
use crate::object::{Object, Resource};
use crate::place::Path;

/// Where a static pod comes from.
#[derive(Debug, Clone, Copy)]
pub struct StaticSource<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The file's path.
    pub file: &'a str,
}

/// A pod from a file of the node's own, as the kubelet would take it: named for the node, on the node,
/// with a UID that stays the same as long as the file does.
///
/// It can name nothing that only a cluster can allocate.
pub fn static_pod(object: &Object, source: StaticSource<'_>) -> Result<Pod, Vec<Finding>> {
    let Resource::Pod(pod) = &object.resource else {
        let problem = Problem::NotSupported { value: object.resource.kind().into(), allowed: vec!["Pod"] };
        return Err(vec![finding(object, &Path::Under(&object.prefix).field("kind"), problem)]);
    };
    let refused = cluster_only(object, pod);
    if refused.is_empty() { Ok(on_node((**pod).clone(), source)) } else { Err(refused) }
}

fn finding(object: &Object, path: &Path<'_>, problem: Problem) -> Finding {
    Finding { file: object.file.clone(), at: object.tree.place_of(path), path: path.to_string(), problem }
}

fn cluster_only(object: &Object, pod: &Pod) -> Vec<Finding> {
    let root = Path::Under(&object.prefix);
    let spec_path = root.field("spec");
    let Some(spec) = pod.spec.as_ref() else { return Vec::new() };
    let mut refused = Refused { object, found: Vec::new() };
    let account = spec.service_account_name.as_ref().or(spec.service_account.as_ref());
    refused.if_set(account.is_some_and(|name| !name.is_empty()), &spec_path.field("serviceAccountName"));
    refused.if_set(is_filled(spec.resource_claims.as_ref()), &spec_path.field("resourceClaims"));
    refused.if_set(is_filled(spec.image_pull_secrets.as_ref()), &spec_path.field("imagePullSecrets"));
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        refused.volume(volume, &spec_path.field("volumes").index(index));
    }
    let lists = [("initContainers", spec.init_containers.as_ref()), ("containers", Some(&spec.containers))];
    for (name, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            refused.variables(container, &spec_path.field(name).index(index));
        }
    }
    refused.found
}

fn is_filled<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

/// What a static pod names and only a cluster has.
struct Refused<'a> {
    object: &'a Object,
    found: Vec<Finding>,
}

impl Refused<'_> {
    fn if_set(&mut self, is_set: bool, path: &Path<'_>) {
        if is_set {
            let problem = Problem::forbidden("a static pod has no API server to ask for it");
            self.found.push(finding(self.object, path, problem));
        }
    }

    fn volume(&mut self, volume: &Volume, path: &Path<'_>) {
        let kinds = [
            ("secret", volume.secret.is_some()),
            ("configMap", volume.config_map.is_some()),
            ("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
            ("ephemeral", volume.ephemeral.is_some()),
            ("csi", volume.csi.is_some()),
            ("azureFile", volume.azure_file.is_some()),
            ("glusterfs", volume.glusterfs.is_some()),
        ];
        for (kind, is_set) in kinds {
            self.if_set(is_set, &path.field(kind));
        }
        let projected = path.field("projected");
        let sources = projected.field("sources");
        for (index, source) in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()).enumerate() {
            let kinds = [
                ("secret", source.secret.is_some()),
                ("configMap", source.config_map.is_some()),
                ("serviceAccountToken", source.service_account_token.is_some()),
                ("clusterTrustBundle", source.cluster_trust_bundle.is_some()),
                ("podCertificate", source.pod_certificate.is_some()),
            ];
            for (kind, is_set) in kinds {
                self.if_set(is_set, &sources.index(index).field(kind));
            }
        }
    }

    fn variables(&mut self, container: &Container, path: &Path<'_>) {
        for (index, from) in container.env_from.iter().flatten().enumerate() {
            let from_path = path.field("envFrom");
            self.if_set(from.config_map_ref.is_some(), &from_path.index(index).field("configMapRef"));
            self.if_set(from.secret_ref.is_some(), &from_path.index(index).field("secretRef"));
        }
        for (index, variable) in container.env.iter().flatten().enumerate() {
            let (env, from) = (path.field("env"), variable.value_from.as_ref());
            let variable_path = env.index(index);
            let from_path = variable_path.field("valueFrom");
            let is_set = |set: Option<bool>| set.unwrap_or_default();
            self.if_set(
                is_set(from.map(|f| f.config_map_key_ref.is_some())),
                &from_path.field("configMapKeyRef"),
            );
            self.if_set(is_set(from.map(|f| f.secret_key_ref.is_some())), &from_path.field("secretKeyRef"));
        }
    }
}

fn on_node(pod: Pod, source: StaticSource<'_>) -> Pod {
    let uid = uid(&pod, source);
    let mut pod = defaulted(pod);
    let metadata = &mut pod.metadata;
    if metadata.uid.as_deref().unwrap_or_default().is_empty() {
        metadata.uid = Some(uid.clone());
    }
    let name = metadata.name.clone().unwrap_or_default();
    metadata.name = Some(format!("{name}-{}", source.node.to_lowercase()));
    if metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        metadata.namespace = Some("default".into());
    }
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.source".into(), "file".into());
    annotations.insert("kubernetes.io/config.hash".into(), uid);
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = Some(source.node.to_owned());
        let stays = Toleration {
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            ..Toleration::default()
        };
        spec.tolerations.get_or_insert_default().push(stays);
    }
    pod.status = Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() });
    pod
}

/// FNV-1a of 128 bits over the pod, its node and its file.
fn uid(pod: &Pod, source: StaticSource<'_>) -> String {
    let text = serde_json::to_string(pod).unwrap_or_default();
    let parts = [text.as_str(), "host:", source.node, "file:", source.file];
    let bytes = parts.iter().flat_map(|part| part.bytes());
    format!("{:032x}", fnv128a(bytes))
}

fn fnv128a(bytes: impl Iterator<Item = u8>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv128a(b"".iter().copied()), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv128a(b"a".iter().copied()), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
