use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use images::{Credentials, Error, Image, Images, Progress, Reference, Remote, Result, Step};
use tokio::sync::{Semaphore, watch};

const AT_ONCE: usize = 32;

type OutcomeSender = watch::Sender<Option<Result<Image>>>;

/// An image and the credentials to pull it. Calls with other credentials do not share a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PullKey {
    pub(super) reference: Reference,
    pub(super) credentials: Option<Credentials>,
}

/// The pulls that are under way.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    running: Mutex<Vec<(PullKey, OutcomeSender)>>,
    turns: Turns,
}

/// As many pulls go on at a time: a slow registry keeps threads that pods need to start and stop.
#[derive(Debug)]
struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Pulls {
    /// Pulls it, or joins a running pull of the same image. A pull ends early when its last caller stops waiting.
    pub(super) async fn pull(
        self: &Arc<Self>,
        images: &Arc<Images>,
        remote: &Remote,
        wanted: PullKey,
    ) -> Result<Image> {
        loop {
            let mut told = self.join(images, remote, &wanted);
            let done = told.wait_for(Option::is_some).await.map(|done| done.clone());
            match done {
                // The pull was cancelled for want of callers just before this one joined: start again.
                Ok(Some(Err(Error::Interrupted)) | None) => {}
                Ok(Some(outcome)) => return outcome,
                // The pulling task has panicked.
                Err(_) => return Err(Error::Interrupted),
            }
        }
    }

    fn join(
        self: &Arc<Self>,
        images: &Arc<Images>,
        remote: &Remote,
        wanted: &PullKey,
    ) -> watch::Receiver<Option<Result<Image>>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, told)) = running.iter().find(|(known, _)| known == wanted) {
            return told.subscribe();
        }
        let (tell, told) = watch::channel(None);
        running.push((wanted.clone(), tell.clone()));
        let entry = Entry { pulls: Arc::clone(self), wanted: wanted.clone() };
        let (images, remote) = (Arc::clone(images), with_credentials(remote, wanted));
        let turns = Arc::clone(&self.turns.0);
        tokio::spawn(async move {
            // The semaphore is never closed, and waiting for it takes no thread.
            let Ok(turn) = turns.acquire_owned().await else { return };
            tokio::task::spawn_blocking(move || {
                let outcome = images.pull(&entry.wanted.reference, &remote, &WhileWanted(&tell));
                // Leave the list first: a later caller starts a new pull, and all earlier ones receive the outcome.
                drop(entry);
                tell.send_replace(Some(outcome));
                drop(turn);
            });
        });
        told
    }
}

/// One pull's place in the list, given up also if it panics.
struct Entry {
    pulls: Arc<Pulls>,
    wanted: PullKey,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut running = self.pulls.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(known, _)| *known != self.wanted);
    }
}

struct WhileWanted<'a>(&'a OutcomeSender);

impl Progress for WhileWanted<'_> {
    fn step(&self, _: Step<'_>) -> ControlFlow<()> {
        if self.0.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn with_credentials(remote: &Remote, wanted: &PullKey) -> Remote {
    let mut remote = remote.clone();
    if let Some(credentials) = &wanted.credentials {
        let registry = wanted.reference.registry().to_owned();
        remote.registries.entry(registry).or_default().credentials = Some(credentials.clone());
    }
    remote
}
