//! Updates of pods, and their results.

use std::time::Duration;

use admission::Admitted;

use crate::pod::handle::Handle;

/// An update of one pod, for [`Agent::sync`](crate::Agent::sync).
#[derive(Debug)]
pub enum PodUpdate {
    /// Start the pod, or apply this definition to it if it runs.
    Apply(Box<Admitted>),
    /// Stop the pod.
    Delete {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The grace period, if it is less than the pod's own; a later deletion can only shorten it.
        grace: Option<Duration>,
    },
}

/// The result of an update.
pub enum Synced {
    /// The pod was started, or adopted because the process that managed it had ended.
    Started(Handle),
    /// These fields of the running pod were changed.
    Updated(Vec<String>),
    /// The pod already runs with this definition.
    Unchanged,
    /// The pod is being stopped.
    Ending,
    /// The pod had ended before; nothing was changed.
    Ended,
    /// This agent runs no such pod.
    Unknown,
}
