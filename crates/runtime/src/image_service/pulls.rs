use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use images::{Credentials, Error, Image, Images, Progress, Reference, Remote, Result, Step};
use tokio::sync::{Semaphore, watch};

const AT_ONCE: usize = 32;

type Told = watch::Sender<Option<Result<Image>>>;

/// An image and who pulls it: what one caller may have is not for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) reference: Reference,
    pub(super) credentials: Option<Credentials>,
}

/// The pulls that are under way.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    running: Mutex<Vec<(Wanted, Told)>>,
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
    /// Pulls it, together with whoever wants the same. It goes on while somebody waits for it, and ends with the
    /// last who does.
    pub(super) async fn pull(
        self: &Arc<Self>,
        images: &Arc<Images>,
        remote: &Remote,
        wanted: Wanted,
    ) -> Result<Image> {
        loop {
            let mut told = self.join(images, remote, &wanted);
            let done = told.wait_for(Option::is_some).await.map(|done| done.clone());
            match done {
                // It had ended for want of anybody just before we came.
                Ok(Some(Err(Error::Interrupted)) | None) => {}
                Ok(Some(outcome)) => return outcome,
                // Whoever was to tell is gone without a word.
                Err(_) => return Err(Error::Interrupted),
            }
        }
    }

    fn join(
        self: &Arc<Self>,
        images: &Arc<Images>,
        remote: &Remote,
        wanted: &Wanted,
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
            // Nobody closes it, and who waits for it takes no thread.
            let Ok(turn) = turns.acquire_owned().await else { return };
            tokio::task::spawn_blocking(move || {
                let outcome = images.pull(&entry.wanted.reference, &remote, &WhileWanted(&tell));
                // Gone from the list first: who comes from now on begins anew, and nobody waits in vain.
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
    wanted: Wanted,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut running = self.pulls.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(known, _)| *known != self.wanted);
    }
}

struct WhileWanted<'a>(&'a Told);

impl Progress for WhileWanted<'_> {
    fn step(&self, _: Step<'_>) -> ControlFlow<()> {
        if self.0.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn with_credentials(remote: &Remote, wanted: &Wanted) -> Remote {
    let mut remote = remote.clone();
    if let Some(credentials) = &wanted.credentials {
        let registry = wanted.reference.registry().to_owned();
        remote.registries.entry(registry).or_default().credentials = Some(credentials.clone());
    }
    remote
}
