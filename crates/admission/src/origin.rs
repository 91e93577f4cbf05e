/// Where pods come from. What they may ask for depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodOrigin {
    /// Manifests, without a cluster.
    #[default]
    Manifests,
    /// An API server, which has tokens, certificates and trust bundles for them.
    ApiServer,
    /// The node's own files, beside an API server: static pods, which use no objects of the API.
    Static,
}

impl PodOrigin {
    /// Whether pods of this origin are placed on the node by a cluster, or by the node itself: the kubelet's admission
    /// ([`kubelet::judge`](crate::kubelet::judge)) decides whether they belong there.
    #[must_use]
    pub fn is_of_node(self) -> bool {
        self != Self::Manifests
    }
}
