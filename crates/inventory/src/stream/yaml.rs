//! YAML, document by document, and a large list item by item.
//!
//! A list is cut only where it is too large to be read as a whole: its items then cannot have aliases
//! of each other's anchors, which no dump has.

use std::io::{self, BufRead};

use manifest::{Listed, MAX_BYTES};

use super::{Part, Sink, WHOLE, listed};

pub(super) fn parts(mut from: impl BufRead, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut splitter = Splitter::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line is bounded as a part is: what goes on past that is refused with its part.
        if from.read_until(b'\n', &mut line)? == 0 {
            splitter.end(sink);
            return Ok(());
        }
        splitter.take(&line, sink);
    }
}

#[derive(Default)]
struct Splitter {
    /// Lines before this one.
    lines: u32,
    text: Vec<u8>,
    /// The line that `text` begins with.
    from: u32,
    has_content: bool,
    list: Option<List>,
    /// Set once the document was found to be too large: from then on each item goes by itself.
    is_cut: bool,
}

/// A list of items at the top of a document.
struct List {
    /// Where its first item begins in the text, and on which line.
    offset: usize,
    line: u32,
    /// How far its dashes are indented, once one was seen.
    indent: Option<usize>,
    index: usize,
    listed: Listed,
    /// Whether its last item has ended.
    is_over: bool,
}

/// Whether a line begins a document.
fn is_marker(line: &[u8]) -> bool {
    is_mark(line, b"---")
}

/// Whether a line ends a document.
fn is_end(line: &[u8]) -> bool {
    is_mark(line, b"...")
}

fn is_mark(line: &[u8], mark: &[u8]) -> bool {
    let rest = line.strip_prefix(mark);
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

fn is_blank(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.is_empty() || text.starts_with(b"#")
}

fn indent_of(line: &[u8]) -> usize {
    line.iter().take_while(|byte| **byte == b' ').count()
}

fn is_dash(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    text.strip_prefix(b"-").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

impl Splitter {
    fn take(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        if is_marker(line) && (self.has_content || self.is_cut) {
            self.end(sink);
        }
        if self.is_cut {
            self.take_of_item(line, sink);
        } else {
            self.take_whole(line);
            if self.text.len() > WHOLE {
                self.cut(sink);
            }
        }
        self.lines = self.lines.saturating_add(1);
        if is_end(line) {
            self.end(sink);
        }
    }

    fn take_whole(&mut self, line: &[u8]) {
        if self.text.is_empty() {
            self.from = self.lines;
        }
        if self.text.len() <= MAX_BYTES {
            self.text.extend_from_slice(line);
        }
        let is_plain = !is_blank(line) && !line.starts_with(b"%") && !is_marker(line);
        self.has_content |= is_plain;
        if self.list.is_none() && line.trim_ascii_end() == b"items:" {
            let head = String::from_utf8_lossy(&self.text);
            let value = |key: &str| head.lines().find_map(|l| Some(l.strip_prefix(key)?.trim()));
            let listed = listed(value("apiVersion:").unwrap_or_default(), value("kind:").unwrap_or_default());
            self.list = Some(List {
                offset: self.text.len(),
                line: self.lines.saturating_add(1),
                indent: None,
                index: 0,
                listed,
                is_over: false,
            });
        }
    }

    /// Goes over what there is of a list again, item by item.
    fn cut(&mut self, sink: &mut Sink<'_>) {
        let Some(list) = &self.list else { return };
        let so_far = self.text.split_off(list.offset);
        let now = std::mem::replace(&mut self.lines, list.line);
        self.text.clear();
        self.is_cut = true;
        for line in so_far.split_inclusive(|byte| *byte == b'\n') {
            self.take_of_item(line, sink);
            self.lines = self.lines.saturating_add(1);
        }
        self.lines = now;
    }

    fn take_of_item(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let Some(list) = &mut self.list else { return };
        if list.is_over {
            return;
        }
        if is_blank(line) {
            self.text.extend_from_slice(line);
            return;
        }
        let indent = indent_of(line);
        let dashes = *list.indent.get_or_insert(indent);
        if indent == dashes && is_dash(line) {
            self.give_item(sink);
            self.from = self.lines;
            // The dash becomes a blank, so that every field keeps its column.
            self.text.extend(line.iter().enumerate().map(|(i, b)| if i == indent { b' ' } else { *b }));
        } else if indent > dashes {
            if self.text.len() <= MAX_BYTES {
                self.text.extend_from_slice(line);
            }
        } else {
            list.is_over = true;
            self.give_item(sink);
        }
    }

    fn give_item(&mut self, sink: &mut Sink<'_>) {
        let Some(list) = &mut self.list else { return };
        if !self.text.trim_ascii().is_empty() {
            let at = (self.from.saturating_add(1), 1);
            sink.give(&Part { bytes: &self.text, at, index: Some(list.index), listed: &list.listed });
            list.index += 1;
        }
        self.text.clear();
    }

    /// The document is over.
    fn end(&mut self, sink: &mut Sink<'_>) {
        if self.is_cut {
            self.give_item(sink);
        } else if self.has_content {
            let at = (self.from.saturating_add(1), 1);
            sink.give(&Part { bytes: &self.text, at, index: None, listed: &Listed::default() });
        }
        *self = Self { lines: self.lines, ..Self::default() };
    }
}
