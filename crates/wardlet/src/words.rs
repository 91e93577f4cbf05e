//! What goes to stderr. A reader that has gone away is no reason to fail.

use std::io::{IsTerminal, Write};

use ids::pool::IdPool;
use ledger::Ledger;

use crate::failure::Failure;
use crate::printable::printable;

/// As it is; on a terminal without control characters, for words of pods, images and registries are in it.
pub(crate) fn line(text: &str) {
    let mut stderr = std::io::stderr();
    let text = if stderr.is_terminal() { printable(text) } else { text.into() };
    let _ = writeln!(stderr, "{text}");
}

/// `text` as one line: what other programs and files say may have several.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn say(text: &str) {
    line(&one_line(text));
}

pub(crate) fn note(text: &str) {
    line(&format!("note: {}", one_line(text)));
}

pub(crate) fn warning(text: &str) {
    line(&format!("warning: {}", one_line(text)));
}

pub(crate) fn failure(failure: &Failure) {
    line(&format!("error: {}", one_line(failure.message())));
    if let Some(hint) = failure.hint() {
        line(&format!("\nhint: {}", one_line(hint)));
    }
}

/// What the ledger has to say about itself.
pub(crate) fn notices(ledger: &Ledger) {
    for notice in ledger.take_notices() {
        warning(&notice);
    }
}

/// What an operator should know about the pool though it works.
pub(crate) fn pool_notes(pool: &IdPool, max_pods: Option<u32>) {
    for text in pool.notes(max_pods) {
        note(&text);
    }
}
