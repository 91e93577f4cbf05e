//! Two things at a time.

use std::io;
use std::thread::{Builder, scope};

use crate::error::{Error, Result};

/// Does `one` in a thread that ends before this returns, and `two` in this one.
pub(crate) fn meanwhile<A: Send, B>(
    one: impl FnOnce() -> Result<A> + Send,
    two: impl FnOnce() -> B,
) -> (Result<A>, B) {
    scope(|scope| {
        let started = Builder::new().spawn_scoped(scope, one);
        let two = two();
        let ended = started.map(|thread| thread.join());
        let one = match ended {
            Ok(Ok(one)) => one,
            Ok(Err(_)) => Err(Error::Thread { source: io::Error::other("it panicked") }),
            Err(source) => Err(Error::Thread { source }),
        };
        (one, two)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_and_a_failure_of_one_is_told_beside_the_other() {
        let (one, two) = meanwhile(|| Ok(std::thread::current().id()), || std::thread::current().id());
        assert_ne!(one.unwrap(), two);
        let (one, two) = meanwhile::<(), _>(|| Err(Error::Thread { source: io::Error::other("x") }), || 2);
        assert!(one.unwrap_err().to_string().contains('x'));
        assert_eq!(two, 2);
    }
}
