//! Connections that have not shown a valid token: as many as there are slots, so that they can neither use up memory
//! and descriptors nor keep clients with a token out.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// As many connections may be without a valid token at a time. Sessions do not count: each of them was asked for.
const MOST: usize = 256;

/// A connection keeps its slot for this long at least: a client sends its request as soon as it is connected, also on
/// a busy machine. While every slot is younger, the kernel keeps new connections waiting.
const GRACE: Duration = Duration::from_millis(250);

/// No request line with a token is longer.
const LONGEST_LINE: usize = 2048;

/// How long the rest of a request line is waited for before it is looked at again: the first time, and the last.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The slots that are taken, from the oldest.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    slots: VecDeque<(Instant, oneshot::Sender<()>)>,
}

/// A slot; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    evicted: oneshot::Receiver<()>,
}

/// What a request line asks for.
pub(crate) enum Request {
    /// A session that is waited for.
    Expected,
    /// Anything else: it is answered while it keeps its slot.
    Other(Slot),
}

impl Asking {
    /// Takes a slot, the oldest connection's if there is none left.
    pub(crate) async fn join(&mut self) -> Slot {
        loop {
            self.slots.retain(|(_, slot)| !slot.is_closed());
            let oldest = self.slots.front().map(|(since, _)| since.elapsed());
            match oldest.filter(|_| self.slots.len() >= MOST) {
                None => break,
                Some(age) if age < GRACE => sleep(PAUSE.min(GRACE.saturating_sub(age))).await,
                Some(_) => {
                    // It may have finished just now.
                    self.slots.pop_front().map(|(_, slot)| slot.send(()));
                }
            }
        }
        let (evict, evicted) = oneshot::channel();
        self.slots.push_back((Instant::now(), evict));
        Slot { evicted }
    }
}

impl Slot {
    /// Waits for the request line, without taking it from the stream. `None` if the slot is another's before it has
    /// come: a line that is there already counts.
    pub(crate) async fn await_request(
        mut self,
        stream: &TcpStream,
        is_expected: impl Fn(&str) -> bool,
    ) -> Option<Request> {
        let line = tokio::select! {
            biased;
            line = request_line(stream) => line,
            _ = &mut self.evicted => return None,
        };
        match token(&line).filter(|token| is_expected(token)) {
            Some(_) => Some(Request::Expected),
            None => Some(Request::Other(self)),
        }
    }

    /// Does the work, unless the slot becomes another's before it is done.
    pub(crate) async fn while_kept<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.evicted => None,
            done = work => Some(done),
        }
    }
}

/// The request line, or what there is of one that is too long or was broken off.
async fn request_line(stream: &TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; LONGEST_LINE];
    let mut pause = PAUSE;
    loop {
        let there = stream.peek(&mut bytes).await.unwrap_or(0);
        let seen = bytes.get(..there).unwrap_or_default();
        let end = seen.iter().position(|byte| *byte == b'\n');
        if there == 0 || there == LONGEST_LINE || end.is_some() {
            return seen.get(..end.unwrap_or(there)).unwrap_or_default().to_vec();
        }
        // A peek would return at once again, with the bytes that are there already.
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// The last part of the path: `GET /exec/TOKEN?query HTTP/1.1`.
fn token(line: &[u8]) -> Option<&str> {
    let target = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    target.split('?').next()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_the_last_part_of_the_path() {
        assert_eq!(token(b"GET /a/exec/abc?port=1/2 HTTP/1.1\r"), Some("abc"));
        assert_eq!(token(b"POST http://host/exec/abc HTTP/1.1"), Some("abc"));
        for other in [&b""[..], b"GET", b"\xff \xff"] {
            assert_eq!(token(other), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_way_after_its_grace_and_not_before() {
        let mut asking = Asking::default();
        let mut slots = Vec::new();
        let began = Instant::now();
        for _ in 0..MOST {
            slots.push(asking.join().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        let _new = asking.join().await;
        assert!(began.elapsed() >= GRACE);
        assert!(slots[0].evicted.try_recv().is_ok() && slots[1].evicted.try_recv().is_err());
        // One that is given back is taken before another is.
        drop(slots.remove(5));
        let _newer = asking.join().await;
        assert!(slots.iter_mut().skip(1).all(|slot| slot.evicted.try_recv().is_err()));
        assert_eq!(asking.slots.len(), MOST);
    }
}
