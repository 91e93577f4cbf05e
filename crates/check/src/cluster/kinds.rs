/// A kind of object that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// As kubectl takes it.
    pub(super) name: &'static str,
    /// Its group and version in a URL: `api/v1`.
    root: &'static str,
    scope: Scope,
    /// Whether it is a pod or makes pods.
    pub(super) has_pods: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

impl Kind {
    const fn pods(name: &'static str, root: &'static str) -> Self {
        Self { name, root, scope: Scope::Namespaced, has_pods: true }
    }

    const fn of(name: &'static str, root: &'static str, scope: Scope) -> Self {
        Self { name, root, scope, has_pods: false }
    }

    /// Where its list is; of one namespace if the kind has namespaces.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        match (self.scope, namespace) {
            (Scope::Namespaced, Some(namespace)) => {
                format!("/{}/namespaces/{namespace}/{}", self.root, self.name)
            }
            _ => format!("/{}/{}", self.root, self.name),
        }
    }
}

/// What the check has a use for. Not among them: secrets and config maps.
///
/// What pods refer to comes first: then a pod finds it when it is read.
pub(super) const KINDS: &[Kind] = &[
    Kind::of("nodes", "api/v1", Scope::Cluster),
    Kind::of("csidrivers", "apis/storage.k8s.io/v1", Scope::Cluster),
    Kind::of("storageclasses", "apis/storage.k8s.io/v1", Scope::Cluster),
    Kind::of("runtimeclasses", "apis/node.k8s.io/v1", Scope::Cluster),
    Kind::of("persistentvolumes", "api/v1", Scope::Cluster),
    Kind::of("persistentvolumeclaims", "api/v1", Scope::Namespaced),
    Kind::pods("deployments", "apis/apps/v1"),
    Kind::pods("statefulsets", "apis/apps/v1"),
    Kind::pods("daemonsets", "apis/apps/v1"),
    Kind::pods("replicasets", "apis/apps/v1"),
    Kind::pods("cronjobs", "apis/batch/v1"),
    Kind::pods("jobs", "apis/batch/v1"),
    Kind::pods("pods", "api/v1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_narrows_only_kinds_that_have_one() {
        let paths: Vec<String> = KINDS.iter().map(|kind| kind.path(Some("shop"))).collect();
        assert!(paths.contains(&"/apis/apps/v1/namespaces/shop/deployments".to_owned()));
        assert!(paths.contains(&"/api/v1/persistentvolumes".to_owned()));
    }

    #[test]
    fn secrets_are_never_asked_for() {
        assert!(KINDS.iter().all(|kind| !["secrets", "configmaps"].contains(&kind.name)));
    }
}
