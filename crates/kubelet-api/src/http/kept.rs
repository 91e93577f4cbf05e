use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::places::Place;

/// As many bytes are given to the connection at once.
const PIECE: usize = 16 << 10;
/// A client that takes nothing for so long gets no more.
const PATIENCE: Duration = Duration::from_secs(30);

/// The text of an answer, which is kept until its client has taken it. The connection asks for a piece when the one before is
/// on its way; nothing is kept for a client that takes none for a while.
pub(crate) struct Kept {
    state: Arc<Mutex<State>>,
    watch: AbortHandle,
}

/// Why an answer ends early: its client has taken nothing of it for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has taken nothing of the answer for {} s", PATIENCE.as_secs())]
pub(crate) struct NotTaken;

struct State {
    rest: Rest,
    /// When the connection asked for a piece.
    asked: Instant,
}

enum Rest {
    Unsent(Unsent),
    Nothing,
    GivenUp,
}

struct Unsent {
    bytes: Vec<u8>,
    /// How many of them are sent.
    at: usize,
    /// That of the answer.
    place: Place,
    /// Those of its bytes.
    size: Option<Place>,
}

impl Kept {
    /// Keeps a text with its places. Must be called within a tokio runtime.
    pub(super) fn new(text: impl Into<Vec<u8>>, place: Place, size: Option<Place>) -> Self {
        let unsent = Unsent { bytes: text.into(), at: 0, place, size };
        let state = State { rest: Rest::Unsent(unsent), asked: Instant::now() };
        let state = Arc::new(Mutex::new(state));
        let watch = tokio::spawn(give_up(Arc::downgrade(&state))).abort_handle();
        Self { state, watch }
    }

    /// The next piece.
    pub(super) fn next(&self) -> Option<Result<Bytes, NotTaken>> {
        locked(&self.state).next()
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        match &locked(&self.state).rest {
            Rest::Unsent(unsent) => unsent.bytes.len().saturating_sub(unsent.at),
            Rest::Nothing | Rest::GivenUp => 0,
        }
    }

    /// Whether there is no next piece.
    pub(super) fn has_ended(&self) -> bool {
        match &locked(&self.state).rest {
            Rest::Unsent(unsent) => unsent.at >= unsent.bytes.len(),
            Rest::Nothing => true,
            // The connection has to hear of it.
            Rest::GivenUp => false,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl State {
    fn next(&mut self) -> Option<Result<Bytes, NotTaken>> {
        self.asked = Instant::now();
        let unsent = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Unsent(unsent) => unsent,
            Rest::Nothing => return None,
            Rest::GivenUp => return Some(Err(NotTaken)),
        };
        let Unsent { bytes, at, place, size } = unsent;
        let end = at.saturating_add(PIECE);
        if end < bytes.len() {
            // A copy: a piece that is on its way must not keep the others.
            let piece = Bytes::copy_from_slice(bytes.get(at..end).unwrap_or_default());
            self.rest = Rest::Unsent(Unsent { bytes, at: end, place, size });
            return Some(Ok(piece));
        }
        let last = if at == 0 { bytes } else { bytes.get(at..).unwrap_or_default().to_vec() };
        Some(Ok(place.hold(last)))
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the rest of an answer once no piece of it was asked for in time.
async fn give_up(state: Weak<Mutex<State>>) {
    let mut until = Instant::now() + PATIENCE;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = locked(&state);
        if !matches!(state.rest, Rest::Unsent(_)) {
            return;
        }
        until = state.asked + PATIENCE;
        if until <= Instant::now() {
            state.rest = Rest::GivenUp;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;

    fn kept(places: &[Arc<Places>; 2], bytes: usize) -> Kept {
        let [answers, sizes] = places;
        let size = sizes.take_many("jane", bytes).unwrap();
        Kept::new(vec![7; bytes], answers.take("jane").unwrap(), Some(size))
    }

    fn places() -> [Arc<Places>; 2] {
        [Places::new("answers", 1), Places::new("bytes of answers", 1)]
    }

    fn are_free(places: &[Arc<Places>; 2]) -> [bool; 2] {
        [0, 1].map(|index| places[index].take("jane").is_ok())
    }

    #[tokio::test]
    async fn an_answer_is_given_in_pieces_and_its_last_one_keeps_its_place() {
        let places = places();
        let kept = kept(&places, 2 * PIECE + 1);
        let first = kept.next().unwrap().unwrap();
        assert_eq!((first.len(), kept.left(), kept.has_ended()), (PIECE, PIECE + 1, false));
        assert_eq!(kept.next().unwrap().unwrap().len(), PIECE);
        assert_eq!(are_free(&places), [false, false]);
        let last = kept.next().unwrap().unwrap();
        assert_eq!((&last[..], kept.left(), kept.has_ended()), (&[7_u8][..], 0, true));
        assert_eq!((kept.next(), are_free(&places)), (None, [false, true]));
        drop(last);
        assert_eq!(are_free(&places), [true, true]);
    }

    /// A client of HTTP/2 that gave no window had the agent keep its answers for hours.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_for_a_client_that_takes_nothing() {
        let places = places();
        let kept = kept(&places, 10 * PIECE);
        for _ in 0..3 {
            tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
            assert!(kept.next().unwrap().is_ok());
        }
        assert_eq!(are_free(&places), [false, false]);
        tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
        assert_eq!(are_free(&places), [true, true]);
        assert_eq!((kept.left(), kept.has_ended()), (0, false));
        assert_eq!((kept.next(), kept.next()), (Some(Err(NotTaken)), None));
    }

    #[tokio::test]
    async fn an_answer_whose_connection_ends_is_not_kept() {
        let places = places();
        drop(kept(&places, 10 * PIECE));
        assert_eq!(are_free(&places), [true, true]);
    }
}
