//! The ConfigMaps and Secrets that a pod names.

use std::collections::BTreeSet;
use std::fmt;

use manifest::k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, PodSpec, Volume};

/// A kind of object that pods read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// An object that pods read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::ConfigMap => "configMap",
            ObjectKind::Secret => "secret",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Whether an object can have this name: a DNS subdomain. What else a pod says never gets into a field selector, where it could
/// select another object.
pub(super) fn is_name(name: &str) -> bool {
    let is_ours = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    name.len() <= 253
        && ends.into_iter().all(|end| end.is_some_and(is_ours))
        && name.bytes().all(|byte| is_ours(byte) || matches!(byte, b'-' | b'.'))
}

/// The ConfigMaps and Secrets that a pod's volumes, variables and image pulls name. Names that no object can have are left out.
#[must_use]
pub fn references(pod: &Pod) -> BTreeSet<ObjectKey> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut found = Found { namespace, keys: BTreeSet::new() };
    if let Some(spec) = &pod.spec {
        found.spec(spec);
    }
    found.keys
}

struct Found<'a> {
    namespace: &'a str,
    keys: BTreeSet<ObjectKey>,
}

impl Found<'_> {
    fn config_map(&mut self, name: &str) {
        self.add(ObjectKind::ConfigMap, name);
    }

    fn secret(&mut self, name: &str) {
        self.add(ObjectKind::Secret, name);
    }

    fn add(&mut self, kind: ObjectKind, name: &str) {
        if is_name(name) {
            let (namespace, name) = (self.namespace.to_owned(), name.to_owned());
            self.keys.insert(ObjectKey { kind, namespace, name });
        }
    }

    fn spec(&mut self, spec: &PodSpec) {
        spec.image_pull_secrets.iter().flatten().for_each(|secret| self.secret(&secret.name));
        spec.volumes.iter().flatten().for_each(|volume| self.volume(volume));
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let parts = containers.map(|container| (&container.env, &container.env_from));
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        for (env, from) in parts.chain(ephemeral.map(|container| (&container.env, &container.env_from))) {
            env.iter().flatten().for_each(|variable| self.variable(variable));
            from.iter().flatten().for_each(|source| self.variables(source));
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(name) = volume.config_map.as_ref().map(|source| &source.name) {
            self.config_map(name);
        }
        if let Some(name) = volume.secret.as_ref().and_then(|source| source.secret_name.as_ref()) {
            self.secret(name);
        }
        let projected = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
        for source in projected.into_iter().flatten() {
            source.config_map.iter().for_each(|map| self.config_map(&map.name));
            source.secret.iter().for_each(|secret| self.secret(&secret.name));
        }
        let published = volume.csi.as_ref().and_then(|csi| csi.node_publish_secret_ref.as_ref());
        published.into_iter().for_each(|secret| self.secret(&secret.name));
    }

    fn variable(&mut self, variable: &EnvVar) {
        let Some(from) = &variable.value_from else { return };
        from.config_map_key_ref.iter().for_each(|key| self.config_map(&key.name));
        from.secret_key_ref.iter().for_each(|key| self.secret(&key.name));
    }

    fn variables(&mut self, source: &EnvFromSource) {
        source.config_map_ref.iter().for_each(|map| self.config_map(&map.name));
        source.secret_ref.iter().for_each(|secret| self.secret(&secret.name));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_names_that_an_object_can_have_are_looked_for() {
        let names =
            ["colours", "a.b-c.0", "9", "", "=sec", "a,metadata.name=b", "A", "-a", "a.", "a_b", "a b"];
        let found = names.map(|name| {
            let source = json!({"name": "v", "secret": {"secretName": name}});
            let pod = json!({"metadata": {}, "spec": {"containers": [], "volumes": [source]}});
            !references(&serde_json::from_value(pod).unwrap()).is_empty()
        });
        assert_eq!(found, [true, true, true, false, false, false, false, false, false, false, false]);
        assert!(is_name(&"a".repeat(253)) && !is_name(&"a".repeat(254)));
    }

    #[test]
    fn every_place_that_names_an_object_is_found() {
        let env = |kind: &str, name: &str| json!({"name": "V", "valueFrom": {format!("{kind}KeyRef"): {"name": name, "key": "k"}}});
        let pod = json!({
            "metadata": {"namespace": "shop"},
            "spec": {
                "imagePullSecrets": [{"name": "s-pull"}],
                "volumes": [
                    {"name": "a", "configMap": {"name": "c-volume"}},
                    {"name": "b", "secret": {"secretName": "s-volume"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "c-projected"}},
                        {"secret": {"name": "s-projected"}}, {"downwardAPI": {}}]}},
                    {"name": "d", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s-csi"}}}
                ],
                "initContainers": [{"name": "i", "env": [env("configMap", "c-init")]}],
                "containers": [{"name": "m", "env": [env("secret", "s-env"), {"name": "P", "value": "x"}],
                    "envFrom": [{"configMapRef": {"name": "c-from"}}, {"secretRef": {"name": "s-from"}}]}],
                "ephemeralContainers": [{"name": "e", "env": [env("secret", "s-debug")]}]
            }
        });
        let found = references(&serde_json::from_value(pod).unwrap());
        let names: Vec<&str> = found.iter().map(|key| key.name.as_str()).collect();
        let maps = ["c-from", "c-init", "c-projected", "c-volume"];
        let secrets = ["s-csi", "s-debug", "s-env", "s-from", "s-projected", "s-pull", "s-volume"];
        assert_eq!(names, [&maps[..], &secrets[..]].concat());
        assert!(found.iter().all(|key| key.namespace == "shop"));
    }
}
