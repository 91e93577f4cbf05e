//! Which sandboxes and containers of the runtime are an agent's.
//!
//! Those that it has made carry the ID of its state directory in an annotation. The agent of a node has those of its
//! kubelet's root directory, too: a kubelet that was stopped there has left them, and the agent takes them over. A kubelet
//! with another root directory keeps its own.
//!
//! Every client of the runtime is root. A pod is not, and its annotations are on its sandbox: with a kubelet, also those
//! that this agent writes. So what a kubelet has made is known by its own marks together with the pod's directory, which
//! only root can make: `<root>/pods/<uid>`, without the mark of another agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use types::PodUid;
use types::keys::{INSTANCE, POD_UID};

use crate::cri::marks::{HASH, SEEN, SOURCE};
use crate::instance::InstanceId;
use crate::pod::pod_files::PodFiles;
use crate::pod::store::PODS;

type Map = BTreeMap<String, String>;

/// The sandboxes and containers of one agent.
#[derive(Debug, Clone)]
pub struct Owned {
    instance: InstanceId,
    /// The kubelet's root directory, for the agent of a node.
    root_dir: Option<PathBuf>,
}

impl Owned {
    /// Those of this state directory; for the agent of a node also those of this root directory.
    #[must_use]
    pub fn new(instance: InstanceId, root_dir: Option<PathBuf>) -> Self {
        Self { instance, root_dir }
    }

    /// The ID of the state directory.
    pub(crate) fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whether a sandbox is this agent's. Its annotations are the pod's, but for those that its maker has put over them.
    pub(crate) fn sandbox(&self, sandbox: &cri::PodSandbox) -> bool {
        let cri::PodSandbox { labels, annotations, .. } = sandbox;
        let has_marks = || [SOURCE, SEEN].iter().any(|key| annotations.contains_key(*key));
        self.instance.owns(annotations) || (has_marks() && self.has_dir(labels))
    }

    /// Whether a container is this agent's. All of its annotations are its maker's.
    pub(crate) fn container(&self, container: &cri::Container) -> bool {
        let cri::Container { labels, annotations, .. } = container;
        let is_kubelets = || annotations.contains_key(HASH) && !annotations.contains_key(INSTANCE);
        self.instance.owns(annotations) || (is_kubelets() && self.has_dir(labels))
    }

    /// Whether the pod with these labels has a directory in the root directory, and it is no other agent's.
    fn has_dir(&self, labels: &Map) -> bool {
        let uid = labels.get(POD_UID).and_then(|uid| PodUid::new(uid.as_str()).ok());
        uid.and_then(|uid| self.files(&uid)).is_some_and(|dir| self.is_free(&dir))
    }

    /// The directory of a pod in the root directory, if there is one.
    pub(crate) fn files(&self, uid: &PodUid) -> Option<PathBuf> {
        let dir = self.root_dir.as_ref()?.join(PODS).join(uid.as_str());
        dir.symlink_metadata().is_ok_and(|found| found.is_dir()).then_some(dir)
    }

    /// Whether no other agent has marked this directory of a pod.
    pub(crate) fn is_free(&self, dir: &Path) -> bool {
        PodFiles(dir).mark().is_none_or(|mark| mark.instance == self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::pod_files::Mark;

    const UID: &str = "0d3a5c1e-0000-4000-8000-000000000001";

    fn map(entries: &[(&str, &str)]) -> Map {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn owned(root_dir: Option<&Path>) -> Owned {
        Owned::new(InstanceId::for_test("one"), root_dir.map(Path::to_owned))
    }

    fn sandbox(uid: &str, annotations: &[(&str, &str)]) -> cri::PodSandbox {
        let (labels, annotations) = (map(&[(POD_UID, uid)]), map(annotations));
        cri::PodSandbox { labels, annotations, ..cri::PodSandbox::default() }
    }

    fn container(uid: &str, annotations: &[(&str, &str)]) -> cri::Container {
        let (labels, annotations) = (map(&[(POD_UID, uid)]), map(annotations));
        cri::Container { labels, annotations, ..cri::Container::default() }
    }

    fn mark(root: &Path, uid: &str, instance: &str) {
        let mark = Mark { instance: InstanceId::for_test(instance), logs: PathBuf::from("/logs") };
        PodFiles(&root.join(PODS).join(uid)).make(&mark).unwrap();
    }

    fn root(uid: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(PODS).join(uid)).unwrap();
        root
    }

    #[test]
    fn what_a_kubelet_has_left_in_the_root_directory_is_the_nodes_agents() {
        let root = root(UID);
        let agent = owned(Some(root.path()));
        assert!(
            agent.sandbox(&sandbox(UID, &[(SOURCE, "api")])) && agent.sandbox(&sandbox(UID, &[(SEEN, "x")]))
        );
        assert!(agent.container(&container(UID, &[(HASH, "8e45cbd0")])));
        // Without a kubelet's marks another client has made it.
        assert!(!agent.sandbox(&sandbox(UID, &[("a", "b")])) && !agent.container(&container(UID, &[])));
        // After it was taken over, and when another agent has it.
        mark(root.path(), UID, "one");
        assert!(agent.sandbox(&sandbox(UID, &[(SOURCE, "file")])));
        mark(root.path(), UID, "two");
        assert!(!agent.sandbox(&sandbox(UID, &[(SOURCE, "api")])));
        assert!(!agent.container(&container(UID, &[(HASH, "8e45cbd0")])));
    }

    #[test]
    fn pods_of_another_root_directory_are_left_alone() {
        let root = root("b5f9c1de-0000-4000-8000-000000000002");
        let (of_kubelet, hash) = ([(SOURCE, "api"), (SEEN, "x")], [(HASH, "8e45cbd0")]);
        for agent in [owned(Some(root.path())), owned(None)] {
            assert!(!agent.sandbox(&sandbox(UID, &of_kubelet)) && !agent.container(&container(UID, &hash)));
        }
        // A link is no directory of a pod, and no name leads out of the root directory.
        let other = self::root(UID);
        std::os::unix::fs::symlink(other.path().join(PODS).join(UID), root.path().join(PODS).join(UID))
            .unwrap();
        for uid in [UID, "..", "", "../pods", "."] {
            assert!(!owned(Some(root.path())).sandbox(&sandbox(uid, &of_kubelet)), "{uid:?}");
        }
    }

    /// A kubelet writes a pod's annotations to its sandbox: a pod that named an agent was kept from being taken over, and its
    /// sandbox stayed when it was deleted.
    #[test]
    fn a_pod_cannot_say_by_its_annotations_whose_it_is() {
        let root = root(UID);
        let forged = sandbox(UID, &[(INSTANCE, "two"), (SOURCE, "api")]);
        assert!(owned(Some(root.path())).sandbox(&forged) && !owned(None).sandbox(&forged));
        // All annotations of a container are its maker's.
        assert!(
            !owned(Some(root.path())).container(&container(UID, &[(INSTANCE, "two"), (HASH, "8e45cbd0")]))
        );
        // Those of a pod make nothing a kubelet's that has no directory there.
        let elsewhere = sandbox("b5f9c1de-0000-4000-8000-000000000002", &[(SOURCE, "api")]);
        assert!(!owned(Some(root.path())).sandbox(&elsewhere));
    }

    #[test]
    fn what_the_agent_has_made_is_its_own_with_or_without_a_root_directory() {
        for agent in [owned(None), owned(Some(Path::new("/nonexistent")))] {
            assert!(agent.sandbox(&sandbox(UID, &[(INSTANCE, "one")])));
            assert!(agent.container(&container(UID, &[(INSTANCE, "one")])));
            assert!(!agent.sandbox(&sandbox(UID, &[(INSTANCE, "two")])));
            assert!(!agent.container(&container(UID, &[(INSTANCE, "two"), (HASH, "8e45cbd0")])));
        }
    }
}
