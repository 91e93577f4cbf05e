/// Where pods come from. What they may ask for depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodOrigin {
    /// Manifests, without a cluster.
    #[default]
    Manifests,
    /// An API server, which issues tokens of service accounts for them.
    ApiServer,
}
