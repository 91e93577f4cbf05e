use std::time::Duration;

/// The node's settings; the defaults are Kubernetes'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The delay before the second restart of a container.
    pub backoff_initial: Duration,
    /// The maximum of the delay, which doubles each time. A container that ends more than twice this long after its
    /// last start begins with the initial delay again.
    pub backoff_cap: Duration,
    /// The delay before a failed action is tried again.
    pub retry: Duration,
    /// The least time between SIGTERM and SIGKILL.
    pub least_grace: Duration,
    /// How many dead instances of each container are kept beside its newest one; `None`: all.
    pub dead_kept: Option<u32>,
    /// How long every dead instance is kept.
    pub dead_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backoff_initial: Duration::from_secs(10),
            backoff_cap: Duration::from_secs(300),
            retry: Duration::from_secs(10),
            least_grace: Duration::from_secs(2),
            dead_kept: Some(1),
            dead_for: Duration::ZERO,
        }
    }
}
