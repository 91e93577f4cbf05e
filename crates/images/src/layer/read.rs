use std::io::Read;

use super::entry::Entry;
use super::meter::{Metered, fault};
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::limits::Limits;

/// Takes the entries of a layer, in the archive's order.
pub trait Sink {
    /// One entry; what is not read of its content is skipped.
    ///
    /// # Errors
    /// If the entry is to be refused: the reading ends.
    fn entry(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Fault>;
}

/// Hands every entry of the uncompressed archive `stream` to `sink`, and returns how many there were.
///
/// # Errors
/// With the entry's name, at the first that is wrong, is refused or goes over a limit.
pub fn read_entries(stream: impl Read, layer: &str, limits: &Limits, sink: &mut impl Sink) -> Result<u64> {
    let (stream, budget) = Metered::new(stream, limits.stream_bytes);
    let mut archive = tar::Archive::new(stream);
    let whole = |fault: Fault| Error::Layer { layer: layer.to_owned(), fault };
    let mut entries = archive.entries().map_err(|error| whole(fault(&error)))?;
    let mut count = 0;
    let mut last = String::new();
    loop {
        budget.headers_begin();
        let next = entries.next();
        budget.headers_end();
        let mut entry = match next {
            None => break,
            Some(Ok(entry)) => entry,
            // The header itself is unreadable: the entry before it is all that can be named.
            Some(Err(error)) if last.is_empty() => return Err(whole(fault(&error))),
            Some(Err(error)) => {
                return Err(Error::Entry {
                    layer: layer.to_owned(),
                    entry: format!("{last} (after it)"),
                    fault: fault(&error),
                });
            }
        };
        last = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        count += 1;
        one(&mut entry, limits, count, sink).map_err(|fault| Error::Entry {
            layer: layer.to_owned(),
            entry: last.clone(),
            fault,
        })?;
    }
    // What follows the end of an archive still counts for its digest.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(|error| whole(fault(&error)))?;
    Ok(count)
}

fn one<R: Read>(
    tarred: &mut tar::Entry<'_, R>,
    limits: &Limits,
    count: u64,
    sink: &mut impl Sink,
) -> Result<(), Fault> {
    if count > limits.entries {
        return Err(Fault::Limit { what: "entries", limit: limits.entries });
    }
    if let Some(entry) = Entry::of(tarred, limits.absolute_names)? {
        sink.entry(&entry, tarred)?;
    }
    // Headers are read next, and their budget must not pay for content that the sink did not read.
    std::io::copy(tarred, &mut std::io::sink()).map_err(|error| fault(&error))?;
    Ok(())
}
