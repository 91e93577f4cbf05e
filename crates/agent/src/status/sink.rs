//! A sink that stores statuses in the state directory.

use std::path::PathBuf;

use crate::error::Result;
use crate::pod::store::Place;
use crate::ports::{BoxFuture, PodRef, StatusSink};
use crate::shared::blocking;
use crate::status::view::PodStatus;

/// Writes the status of each pod to `status.json` in the pod's directory, where `ps` and later processes read it.
#[derive(Debug, Clone)]
pub struct StatusFiles {
    state: PathBuf,
}

impl StatusFiles {
    /// A sink in this state directory, which must be that of the agent.
    #[must_use]
    pub fn new(state: PathBuf) -> Self {
        Self { state }
    }

    fn place(&self, pod: &PodRef) -> Place {
        Place::new(&self.state, &pod.uid, &pod.namespace, &pod.name)
    }
}

impl StatusSink for StatusFiles {
    fn publish<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> BoxFuture<'a, Result<()>> {
        let (place, status) = (self.place(pod), status.clone());
        Box::pin(blocking("writing a status", move || place.write_status(&status)))
    }

    fn last(&self, pod: &PodRef) -> Option<PodStatus> {
        self.place(pod).read_status()
    }
}
