/// A resource that the controller watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Watched {
    Pods,
    Claims,
    Volumes,
    Drivers,
    Nodes,
}

impl Watched {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Pods, Self::Claims, Self::Volumes, Self::Drivers, Self::Nodes];

    /// The resource, as RBAC names it.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Claims => "persistentvolumeclaims",
            Self::Volumes => "persistentvolumes",
            Self::Drivers => "csidrivers",
            Self::Nodes => "nodes",
        }
    }

    /// What does not work without it.
    pub(crate) fn consequence(self) -> &'static str {
        match self {
            Self::Pods => "no pod is known, and so no conflict",
            Self::Claims | Self::Volumes => {
                "the volumes behind claims are not known, and so no conflict on them"
            }
            Self::Drivers => {
                "no CSI driver counts as able to mount with a label, and so no conflict on CSI volumes is found"
            }
            Self::Nodes => "nodes are not counted",
        }
    }
}
