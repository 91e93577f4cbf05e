//! Work that takes time, one piece at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Does one piece of work at a time. The next one waits for the end of the one before it also if no caller waits for the outcome of
/// that one any more: clients that ask and leave cannot start one after the other.
#[derive(Debug, Clone)]
pub(super) struct Serial {
    turns: Arc<Semaphore>,
    /// How long a piece waits for its turn.
    deadline: Duration,
}

impl Serial {
    pub(super) fn new(deadline: Duration) -> Self {
        Self { turns: Arc::new(Semaphore::new(1)), deadline }
    }

    /// Does work that blocks, on a thread of its own, when it is its turn.
    ///
    /// # Errors
    /// If the turn does not come in time, or the work ends early.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let turn = self.turn().await?;
        let done = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(turn);
            outcome
        });
        done.await.map_err(|error| error.to_string())
    }

    /// Does work that waits, in a task of its own, when it is its turn.
    ///
    /// # Errors
    /// If the turn does not come in time, or the work ends early.
    pub(super) async fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let turn = self.turn().await?;
        let done = tokio::spawn(async move {
            let outcome = work.await;
            drop(turn);
            outcome
        });
        done.await.map_err(|error| error.to_string())
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, String> {
        let turn = tokio::time::timeout(self.deadline, Arc::clone(&self.turns).acquire_owned()).await;
        let late = || format!("an earlier read has not ended within {} s", self.deadline.as_secs());
        // The semaphore is never closed.
        turn.map_err(|_| late())?.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Clients that left while a filesystem did not answer each left a thread behind, until there were none.
    #[tokio::test]
    async fn a_client_that_leaves_starts_no_second_read() {
        let serial = Serial::new(Duration::from_millis(100));
        let (release, held) = mpsc::channel::<()>();
        let begun = Arc::new(AtomicU32::new(0));
        let first = {
            let (serial, begun) = (serial.clone(), Arc::clone(&begun));
            tokio::spawn(async move {
                let work = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    let _ = held.recv();
                };
                serial.run(work).await
            })
        };
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let count = || {
            let begun = Arc::clone(&begun);
            move || begun.fetch_add(1, Ordering::SeqCst)
        };
        let refused = serial.run(count()).await.unwrap_err();
        assert_eq!(refused, "an earlier read has not ended within 0 s");
        assert_eq!(begun.load(Ordering::SeqCst), 1, "the first goes on alone");
        release.send(()).unwrap();
        // The thread ends in its own time.
        let next = Serial { deadline: Duration::from_secs(60), ..serial };
        assert_eq!(next.run(count()).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_starts_no_second_call() {
        let serial = Serial::new(Duration::from_secs(20));
        let ended = Arc::new(AtomicU32::new(0));
        let call = |seconds| {
            let ended = Arc::clone(&ended);
            async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                ended.fetch_add(1, Ordering::SeqCst)
            }
        };
        let first = tokio::time::timeout(Duration::from_secs(1), serial.spawn(call(10))).await;
        assert!(first.is_err(), "the client has left");
        assert_eq!(serial.spawn(call(30)).await, Ok(1), "after the first one");
        let (slow, late) = tokio::join!(serial.spawn(call(30)), serial.spawn(call(0)));
        assert_eq!(slow, Ok(2));
        assert_eq!(late.unwrap_err(), "an earlier read has not ended within 20 s");
    }

    #[tokio::test]
    async fn work_that_panics_ends_its_turn() {
        let serial = Serial::new(Duration::from_secs(60));
        assert!(serial.run(|| -> u8 { panic!("a test") }).await.is_err());
        assert_eq!(serial.run(|| 7).await, Ok(7));
    }
}
