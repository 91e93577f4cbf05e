use std::path::PathBuf;
use std::sync::Arc;

use ledger::Ledger;
use volumes::PodVolumes;

use crate::cri::Cri;
use crate::error::{Error, Result};
use crate::events::Bells;
use crate::logs::LogRotation;
use crate::source::Objects;

/// Something that happened to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `namespace/name`.
    pub pod: String,
    /// Whether it went well.
    pub kind: EventKind,
    /// What, in one line.
    pub text: String,
}

/// Whether something went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// As it should.
    Normal,
    /// Not as it should.
    Warning,
}

/// Is told what happens.
pub type Tell = Arc<dyn Fn(&Event) + Send + Sync>;

/// What all pod workers have in common.
pub(crate) struct Shared {
    /// Absolute.
    pub(crate) state: PathBuf,
    pub(crate) endpoint: String,
    pub(crate) cri: Cri,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) volumes: PodVolumes,
    pub(crate) objects: Objects,
    pub(crate) bells: Arc<Bells>,
    pub(crate) settings: lifecycle::Settings,
    pub(crate) logs: LogRotation,
    pub(crate) node: String,
    pub(crate) host_ip: String,
    pub(crate) tell: Tell,
}

impl Shared {
    pub(crate) fn say(&self, pod: &str, text: impl Into<String>) {
        (self.tell)(&Event { pod: pod.to_owned(), kind: EventKind::Normal, text: text.into() });
    }

    pub(crate) fn warn(&self, pod: &str, text: impl Into<String>) {
        (self.tell)(&Event { pod: pod.to_owned(), kind: EventKind::Warning, text: text.into() });
    }
}

/// Does `work`, which waits for the disk, where it keeps nobody else waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::BrokeOff { what }))
}
