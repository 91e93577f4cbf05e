//! What does not hold.

use serde::Serialize;

use crate::pods::Pod;

/// What sort of violation; the names are a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// A process of the pod has an ID that is not of its block.
    Credentials,
    /// A process of the pod is outside the pod's user namespace.
    OutsideNamespace,
    /// A process outside the pod has an ID of the block.
    ForeignProcess,
    /// A user namespace outside the pod maps the block.
    ForeignNamespace,
    /// Two pods have IDs in common.
    Overlap,
    /// The pod's map holds IDs of the host itself.
    HostIds,
    /// Files of the host are seen with the host's owners.
    MountNotIdmapped,
    /// Files of the host are seen with owners of another block.
    MountWrongMap,
    /// The owner of a file of the container is outside the pod's block.
    FileOwner,
    /// The owner of a namespace of the pod is a user namespace outside the pod, or the namespace is the host's.
    NamespaceOwner,
    /// A process has another SELinux level than the lease says.
    Label,
    /// The ledger has a lease whose holder is no pod or sandbox of this node.
    LeaseWithoutPod,
    /// Neither the ledger nor the kubelet knows of the pod's block.
    PodWithoutLease,
    /// The ledger says another block.
    LeaseDiffers,
    /// The kubelet's record says another block.
    RecordDiffers,
    /// Asked for, and not there.
    NotIsolated,
}

impl What {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Credentials => "find out how it came to have the ID, and restart the pod",
            Self::OutsideNamespace => {
                "find the process that moved it into the pod's cgroup; the pod's user namespace does not confine it"
            }
            Self::ForeignProcess => {
                "find its parent process; it can act on the files and processes of the pod"
            }
            Self::ForeignNamespace => "end what keeps it, or restart the pod with another block",
            Self::Overlap => "stop one of the two and start it again with another block",
            Self::HostIds => "stop the pod at once: IDs inside are host accounts outside",
            Self::MountNotIdmapped => {
                "restart the pod with a runtime that idmaps its mounts (wardlet doctor says which can)"
            }
            Self::MountWrongMap => "restart the pod: its volume was made ready for another one",
            Self::FileOwner => {
                "remove the file or change its owner to an ID of the block, and find the process that changed it"
            }
            Self::NamespaceOwner => {
                "restart the pod with a runtime that makes its namespaces in its user namespace"
            }
            Self::Label => "restart the pod: other pods may have this level too",
            Self::LeaseWithoutPod => "wardlet ids release HOLDER, if nothing of it is to come back",
            Self::PodWithoutLease => {
                "its block may be given away a second time: restart the pod, or wardlet ids import /var/lib/kubelet"
            }
            Self::LeaseDiffers => "restart the pod; until then do not release the lease",
            Self::RecordDiffers => "restart the pod: the kubelet may give its block to another",
            Self::NotIsolated => {
                "wardlet explain and wardlet doctor say why; restart the pod when that is mended"
            }
        }
    }

    /// Whether two scans must agree on the very process: runtimes have one there for a moment whenever a
    /// container or an exec starts.
    fn is_of_one_process(self) -> bool {
        matches!(self, Self::Credentials | Self::OutsideNamespace)
    }
}

/// One violation; the first six fields are a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What sort.
    pub what: What,
    /// The title of the pod that it is about.
    pub pod: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// The file, mount point or namespace.
    pub path: Option<String>,
    /// What should be.
    pub expected: String,
    /// What is.
    pub found: String,
    /// What to do about it.
    pub hint: &'static str,
    /// The UIDs of all pods that it touches.
    #[serde(rename = "pods")]
    pub touches: Vec<String>,
}

impl Violation {
    pub(crate) fn new(what: What, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            what,
            pod: None,
            pid: None,
            path: None,
            expected: expected.into(),
            found: found.into(),
            hint: what.hint(),
            touches: Vec::new(),
        }
    }

    pub(crate) fn of(mut self, pod: &Pod) -> Self {
        self.pod = Some(pod.title());
        self.and(pod)
    }

    /// It touches this pod as well.
    pub(crate) fn and(mut self, pod: &Pod) -> Self {
        self.touches.push(pod.uid().to_owned());
        self
    }

    pub(crate) fn by(mut self, pid: u32) -> Self {
        self.pid = Some(pid);
        self
    }

    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Whether a second scan shows the same.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        let same_process = !self.what.is_of_one_process() || self.pid == other.pid;
        same_process && (self.what, &self.touches, &self.path) == (other.what, &other.touches, &other.path)
    }
}

/// What the checks have come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// What the reader should know, without doubt falling on the rest.
    pub(crate) notes: Vec<Note>,
    /// What could not be found out.
    pub(crate) unseen: Vec<Unseen>,
}

/// Something that could not be found out, on a pod or on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Unseen {
    /// The pod's UID; `None` for one on the node.
    pub uid: Option<String>,
    /// It as a sentence.
    pub text: String,
}

impl From<Unseen> for String {
    fn from(unseen: Unseen) -> Self {
        unseen.text
    }
}

/// A note, on a pod or on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The pod's title; `None` for one on the node.
    pub pod: Option<String>,
    /// The pod's UID.
    #[serde(skip)]
    pub uid: Option<String>,
    /// It as a sentence.
    pub text: String,
}

impl Findings {
    pub(crate) fn violated(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    pub(crate) fn unseen_on_node(&mut self, text: impl Into<String>) {
        self.unseen.push(Unseen { uid: None, text: text.into() });
    }

    pub(crate) fn unseen_of(&mut self, pod: &Pod, text: impl Into<String>) {
        self.unseen.push(Unseen { uid: Some(pod.uid().to_owned()), text: text.into() });
    }

    pub(crate) fn note(&mut self, pod: &Pod, text: impl Into<String>) {
        let note = Note { pod: Some(pod.title()), uid: Some(pod.uid().to_owned()), text: text.into() };
        self.notes.push(note);
    }
}
