//! Two things at a time.

use std::io;
use std::sync::mpsc::{Receiver, RecvError, TryRecvError, channel};
use std::thread::{Builder, scope, yield_now};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// For how long it is asked again and again whether something has come. To be woken takes a good part of that.
const SOON: Duration = Duration::from_micros(300);

/// Does `one` in a thread that ends before this returns, and `two` in this one, which can wait for the other.
pub(crate) fn meanwhile<A: Send, B>(
    one: impl FnOnce() -> Result<A> + Send,
    two: impl FnOnce(Other<A>) -> B,
) -> B {
    let (tell, told) = channel();
    scope(|scope| {
        let one = move || {
            // Who does not listen any more has failed.
            let _ = tell.send(one());
        };
        let (thread, failed) = match Builder::new().spawn_scoped(scope, one) {
            Ok(thread) => (Some(thread), None),
            Err(source) => (None, Some(source)),
        };
        let done = two(Other { told, failed });
        // One that panicked has told nothing, and nobody waits for it.
        let _ = thread.map(|thread| thread.join());
        done
    })
}

/// What is done meanwhile.
pub(crate) struct Other<A> {
    told: Receiver<Result<A>>,
    failed: Option<io::Error>,
}

impl<A> Other<A> {
    /// What came of it.
    pub(crate) fn wait(self) -> Result<A> {
        let broken = || Error::Thread { source: io::Error::other("it panicked") };
        match self.failed {
            Some(source) => Err(Error::Thread { source }),
            None => soon(&self.told).unwrap_or_else(|RecvError| Err(broken())),
        }
    }
}

/// Waits for what is to come at any moment.
pub(crate) fn soon<T>(from: &Receiver<T>) -> std::result::Result<T, RecvError> {
    let began = Instant::now();
    while began.elapsed() < SOON {
        match from.try_recv() {
            Ok(told) => return Ok(told),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) => yield_now(),
        }
    }
    from.recv()
}

#[cfg(test)]
mod tests {
    use std::thread::{current, sleep};

    use super::*;

    #[test]
    fn both_are_done_and_a_failure_of_one_is_told_to_the_other() {
        let (one, two) = meanwhile(|| Ok(current().id()), |other| (other.wait().unwrap(), current().id()));
        assert_ne!(one, two);
        let failed = || -> Result<()> { Err(Error::Thread { source: io::Error::other("x") }) };
        assert!(meanwhile(failed, |other| other.wait().unwrap_err().to_string()).contains('x'));
        assert_eq!(meanwhile(failed, |_| 2), 2, "nobody has to wait");
    }

    #[test]
    fn what_comes_late_comes() {
        for wait in [Duration::ZERO, SOON * 20] {
            let late = move || {
                sleep(wait);
                Ok(3)
            };
            assert_eq!(meanwhile(late, |other| other.wait().unwrap()), 3);
        }
        let (tell, told) = channel::<()>();
        drop(tell);
        assert_eq!(soon(&told), Err(RecvError));
    }
}
