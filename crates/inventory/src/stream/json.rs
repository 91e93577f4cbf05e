//! A list in JSON, item by item. Only brackets and strings are looked at: what is wrong inside an item
//! is found when the item is read.

use std::io::{self, BufRead};

use manifest::{Listed, MAX_BYTES};

use super::{Part, Sink, listed};

/// Where a byte goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    /// The object as a whole, without its items.
    Head,
    /// The list of items, between two of them.
    Items,
    /// An item.
    Item,
}

struct Splitter {
    at: (u32, u32),
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    place: In,
    head: Vec<u8>,
    head_at: (u32, u32),
    item: Vec<u8>,
    item_at: (u32, u32),
    index: usize,
}

pub(super) fn parts(mut from: impl BufRead, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut splitter = Splitter {
        at: (1, 1),
        depth: 0,
        is_text: false,
        is_escaped: false,
        place: In::Head,
        head: Vec::new(),
        head_at: (1, 1),
        item: Vec::new(),
        item_at: (1, 1),
        index: 0,
    };
    loop {
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            splitter.end(sink);
            return Ok(());
        }
        let length = bytes.len();
        bytes.iter().for_each(|byte| splitter.take(*byte, sink));
        from.consume(length);
    }
}

impl Splitter {
    fn take(&mut self, byte: u8, sink: &mut Sink<'_>) {
        if self.is_text {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
        } else {
            self.outside_text(byte, sink);
        }
        self.step(byte);
    }

    fn outside_text(&mut self, byte: u8, sink: &mut Sink<'_>) {
        match byte {
            b'{' | b'[' => {
                let opens_items = byte == b'[' && self.depth == 1 && self.is_after_items();
                if self.place == In::Items && byte == b'{' {
                    (self.place, self.item_at) = (In::Item, self.at);
                }
                if self.depth == 0 && self.head.is_empty() {
                    self.head_at = self.at;
                }
                self.keep(byte);
                self.depth += 1;
                if opens_items {
                    self.place = In::Items;
                }
            }
            b'}' | b']' => self.close(byte, sink),
            b'"' => {
                self.is_text = true;
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn close(&mut self, byte: u8, sink: &mut Sink<'_>) {
        self.depth = self.depth.saturating_sub(1);
        if self.place == In::Items && self.depth == 1 {
            self.place = In::Head;
        }
        self.keep(byte);
        if self.place == In::Item && self.depth == 2 {
            self.give_item(sink);
            self.place = In::Items;
        }
        if self.depth == 0 {
            self.give_head(sink);
        }
    }

    /// Between items only blanks and commas are left out; anything else is shown with the head, where
    /// it is found to be out of place. A part that grows past what is read is cut: it is refused so.
    fn keep(&mut self, byte: u8) {
        let part = match self.place {
            In::Item => &mut self.item,
            In::Items if byte == b',' || byte.is_ascii_whitespace() => return,
            In::Head if self.depth == 0 && byte.is_ascii_whitespace() => return,
            In::Items | In::Head => &mut self.head,
        };
        if part.len() <= MAX_BYTES {
            part.push(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        let (line, column) = self.at;
        self.at = match byte {
            b'\n' => (line.saturating_add(1), 1),
            // A character has one byte that does not go on with another.
            0x80..=0xbf => self.at,
            _ => (line, column.saturating_add(1)),
        };
    }

    /// Whether what comes next is the value of `"items":`.
    fn is_after_items(&self) -> bool {
        let head = self.head.trim_ascii_end();
        let key = head.strip_suffix(b":").map(<[u8]>::trim_ascii_end);
        key.is_some_and(|key| key.ends_with(b"\"items\""))
    }

    fn give_item(&mut self, sink: &mut Sink<'_>) {
        let listed = self.listed();
        sink.give(&Part { bytes: &self.item, at: self.item_at, index: Some(self.index), listed: &listed });
        self.item.clear();
        self.index += 1;
    }

    fn give_head(&mut self, sink: &mut Sink<'_>) {
        sink.give(&Part { bytes: &self.head, at: self.head_at, index: None, listed: &Listed::default() });
        self.head.clear();
        self.index = 0;
    }

    /// What the list has said of itself so far.
    fn listed(&self) -> Listed {
        let head = String::from_utf8_lossy(&self.head);
        let value = |key: &str| {
            let (_, rest) = head.split_once(key)?;
            let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
            rest.split('"').next()
        };
        listed(value("\"apiVersion\"").unwrap_or_default(), value("\"kind\"").unwrap_or_default())
    }

    /// What is not closed is shown as it is, and refused for it.
    fn end(&mut self, sink: &mut Sink<'_>) {
        if self.place == In::Item {
            self.give_item(sink);
        }
        if !self.head.trim_ascii().is_empty() {
            self.give_head(sink);
        }
    }
}
