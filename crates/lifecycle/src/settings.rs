use std::time::Duration;

/// The node's own numbers; the defaults are Kubernetes'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a container that ended a second time waits before it is started again.
    pub backoff_initial: Duration,
    /// What the wait, doubled each time, never exceeds. A container whose last start is twice this long
    /// ago when it ends begins with the initial wait again.
    pub backoff_cap: Duration,
    /// How long an action that failed is left before it is tried again.
    pub retry: Duration,
    /// The least that a container is given between SIGTERM and SIGKILL.
    pub least_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backoff_initial: Duration::from_secs(10),
            backoff_cap: Duration::from_secs(300),
            retry: Duration::from_secs(10),
            least_grace: Duration::from_secs(2),
        }
    }
}
