use std::io::{self, Write};

/// Says something to the person at the terminal. Nobody may be listening any more: what must be
/// cleaned up is cleaned up all the same.
pub(crate) fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}
