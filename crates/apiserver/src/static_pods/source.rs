//! The kubelet's directory of static pods as a source of pods.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::FileSource;
use agent::ports::{BoxFuture, PodSource};
use manifest::{Finding, Object, StaticSource, static_pod};
use tracing::warn;

use crate::pods::{ApiPod, PodSet};

/// Watches a directory of static pods. Each set that it delivers is complete; a directory that does not exist is an empty
/// one.
pub struct StaticPods {
    files: FileSource,
    node: String,
    /// The refusals that were logged.
    logged: BTreeSet<String>,
}

impl StaticPods {
    /// Starts to watch a directory. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(dir: &Path, node: &str, rescan: Duration) -> Self {
        let files = FileSource::static_pods(dir, rescan);
        Self { files, node: node.to_owned(), logged: BTreeSet::new() }
    }

    /// The pods among the objects. Refusals are logged once.
    fn read(&mut self, objects: &[Object]) -> PodSet {
        let (mut pods, mut refusals): (Vec<Arc<ApiPod>>, _) = (Vec::new(), BTreeSet::new());
        for object in objects {
            match self.read_one(object) {
                Ok(pod) if pods.iter().any(|other| is_same_name(other, &pod)) => {
                    let (namespace, name) = (&pod.pod.namespace, &pod.pod.name);
                    let text =
                        format!("{}: static pod {namespace}/{name} is in another file, too", object.file);
                    refusals.insert(format!("{text}; the first file counts"));
                }
                Ok(pod) => pods.push(Arc::new(pod)),
                Err(text) => drop(refusals.insert(text)),
            }
        }
        refusals.difference(&self.logged).for_each(|text| warn!("{text}"));
        self.logged = refusals;
        PodSet { pods, ..PodSet::default() }
    }

    fn read_one(&self, object: &Object) -> Result<ApiPod, String> {
        let source = StaticSource { node: &self.node, file: &object.file };
        let pod = static_pod(object, source).map_err(|findings| texts(&findings))?;
        ApiPod::of_file(&pod).ok_or_else(|| {
            format!("{}: metadata.uid: it cannot be the UID of a pod; remove it from the file", object.file)
        })
    }
}

impl PodSource for StaticPods {
    type Set = Arc<PodSet>;

    fn next(&mut self) -> BoxFuture<'_, Option<Arc<PodSet>>> {
        Box::pin(async move {
            let set = self.files.next().await?;
            set.problems.iter().for_each(|problem| warn!("static pods: {problem}"));
            Some(Arc::new(self.read(&set.objects)))
        })
    }
}

fn is_same_name(one: &ApiPod, other: &ApiPod) -> bool {
    (&one.pod.namespace, &one.pod.name) == (&other.pod.namespace, &other.pod.name)
}

fn texts(findings: &[Finding]) -> String {
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, spec: &str) -> String {
        let containers = "containers: [{name: a, image: i}]";
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{{spec}{containers}}}\n")
    }

    #[tokio::test]
    async fn pods_of_a_directory_appear_change_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let next = dir.path().join(".next");
            std::fs::write(&next, text).unwrap();
            std::fs::rename(next, dir.path().join(name)).unwrap();
        };
        file("a.yaml", &pod("web", ""));
        file("kubelet-takes-any-name", &pod("db", ""));
        file(".hidden.yaml", &pod("hidden", ""));
        file("c.yaml", &pod("secret", "volumes: [{name: v, secret: {secretName: s}}], "));
        let mut source = StaticPods::start(dir.path(), "Node-1", Duration::from_secs(20));
        let set = source.next().await.unwrap();
        let names = |set: &PodSet| set.pods.iter().map(|pod| pod.pod.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&set), ["web-node-1", "db-node-1"]);
        assert!(set.pods.iter().all(|pod| pod.is_static && pod.pod.namespace == "default"));
        let before = set.pods[0].pod.uid.clone();
        std::fs::remove_file(dir.path().join("kubelet-takes-any-name")).unwrap();
        file("a.yaml", &pod("web", "hostUsers: false, "));
        let changed = loop {
            let set = source.next().await.unwrap();
            if set.pods.len() == 1 && set.pods[0].pod.uid != before {
                break set;
            }
        };
        assert_eq!(names(&changed), ["web-node-1"]);
    }

    #[tokio::test]
    async fn a_directory_that_does_not_exist_is_an_empty_set() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = StaticPods::start(&dir.path().join("absent"), "n", Duration::from_secs(20));
        assert!(source.next().await.unwrap().pods.is_empty());
    }
}
