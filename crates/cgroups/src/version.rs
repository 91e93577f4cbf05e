/// The cgroup version of this host, by the hierarchies that are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// cgroup v1: one hierarchy for each controller or group of controllers.
    V1,
    /// cgroup v2: the unified hierarchy.
    V2,
    /// Both are mounted. The unified hierarchy has some controllers or none.
    Hybrid,
}
