use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::fault::Fault;

/// Long names, PAX records and sparse maps of one entry; the archive's reader keeps them in memory.
const HEADER_BYTES: u64 = 1 << 20;

/// The remaining budget of a metered archive.
#[derive(Debug)]
pub(crate) struct Budget {
    stream: Cell<u64>,
    stream_limit: u64,
    /// While headers are read: the bytes that they may still have.
    headers: Cell<Option<u64>>,
}

/// An archive that cannot be read beyond its budget.
pub(crate) struct Metered<R> {
    inner: R,
    budget: Rc<Budget>,
}

impl<R: Read> Metered<R> {
    pub(crate) fn new(inner: R, stream_limit: u64) -> (Self, Rc<Budget>) {
        let budget = Budget { stream: Cell::new(stream_limit), stream_limit, headers: Cell::new(None) };
        let budget = Rc::new(budget);
        (Self { inner, budget: budget.clone() }, budget)
    }
}

impl Budget {
    /// Headers are read from now on.
    pub(crate) fn headers_begin(&self) {
        self.headers.set(Some(HEADER_BYTES));
    }

    pub(crate) fn headers_end(&self) {
        self.headers.set(None);
    }

    fn take(&self, count: u64) -> Result<(), Fault> {
        let spent = |left: u64, what: &'static str, limit: u64| {
            left.checked_sub(count).ok_or(Fault::Limit { what, limit })
        };
        self.stream.set(spent(self.stream.get(), "bytes in the uncompressed archive", self.stream_limit)?);
        if let Some(left) = self.headers.get() {
            self.headers.set(Some(spent(left, "bytes of headers for one entry", HEADER_BYTES)?));
        }
        Ok(())
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.take(u64::try_from(count).unwrap_or(u64::MAX)).map_err(io::Error::other)?;
        Ok(count)
    }
}

/// The fault behind an error of a metered archive's reader.
pub(crate) fn fault(error: &io::Error) -> Fault {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
    own.cloned().unwrap_or_else(|| Fault::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_the_whole_have_limits_of_their_own() {
        let (mut reader, budget) = Metered::new(io::repeat(0), 3 << 20);
        let mut megabyte = vec![0; 1 << 20];
        budget.headers_begin();
        reader.read_exact(&mut megabyte).unwrap();
        let error = reader.read_exact(&mut [0]).unwrap_err();
        assert_eq!(
            fault(&error),
            Fault::Limit { what: "bytes of headers for one entry", limit: HEADER_BYTES }
        );
        budget.headers_end();
        reader.read_exact(&mut megabyte).unwrap();
        let error = reader.read_exact(&mut megabyte).unwrap_err();
        assert_eq!(fault(&error), Fault::Limit { what: "bytes in the uncompressed archive", limit: 3 << 20 });
    }
}
