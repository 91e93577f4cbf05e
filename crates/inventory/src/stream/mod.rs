//! Texts of any size in parts: a large dump is never in memory as a whole.

mod json;
mod yaml;

use std::io::{self, BufReader, Read};

use manifest::Listed;
use serde::de::IgnoredAny;

use crate::chunk::{ManifestChunk, Origin};

/// Documents up to this many bytes are read as a whole.
const WHOLE: usize = 4 * 1024 * 1024;

/// Where the parts of a text go.
pub struct Sink<'a> {
    file: &'a str,
    origin: Origin,
    take: &'a mut dyn FnMut(&ManifestChunk<'_>),
}

/// A part of a text.
struct Part<'a> {
    bytes: &'a [u8],
    /// Line and column of its first byte.
    at: (u32, u32),
    /// Its place in a list, if it is an item of one.
    index: Option<usize>,
    listed: &'a Listed,
}

impl<'a> Sink<'a> {
    /// `take` is called for every part of the text called `file`.
    pub fn new(file: &'a str, origin: Origin, take: &'a mut dyn FnMut(&ManifestChunk<'_>)) -> Self {
        Self { file, origin, take }
    }

    fn give_whole(&mut self, text: &[u8]) {
        self.give(&Part { bytes: text, at: (1, 1), index: None, listed: &Listed::default() });
    }

    fn give(&mut self, part: &Part<'_>) {
        let (line, column) = part.at;
        (self.take)(&ManifestChunk {
            file: self.file,
            origin: self.origin,
            bytes: part.bytes,
            at: manifest::Position { line, column },
            prefix: part.index.map(|index| format!("items[{index}]")).unwrap_or_default(),
            listed: part.listed.clone(),
        });
    }
}

/// Hands over a text in parts, so that one that cannot be read does not keep the others from being read.
///
/// # Errors
/// If `from` cannot be read; the parts before that have been handed over.
pub fn parts(mut from: impl Read, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut start = Vec::new();
    let limit = u64::try_from(WHOLE).unwrap_or(u64::MAX).saturating_add(1);
    from.by_ref().take(limit).read_to_end(&mut start)?;
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    let is_small = start.len() <= WHOLE;
    let rest = BufReader::with_capacity(1 << 16, text.chain(from));
    match shape(text) {
        Shape::Json if is_small && is_sound(text) => {
            sink.give_whole(text);
            Ok(())
        }
        Shape::Flow if is_small => {
            sink.give_whole(text);
            Ok(())
        }
        Shape::Json | Shape::Flow => json::parts(rest, sink),
        Shape::Yaml => yaml::parts(rest, sink),
    }
}

/// What a text looks like by its first characters.
enum Shape {
    Json,
    /// A mapping in braces that may be YAML.
    Flow,
    Yaml,
}

fn shape(text: &[u8]) -> Shape {
    let mut bytes = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), Some(b'"' | b'}')) => Shape::Json,
        (Some(b'{'), _) => Shape::Flow,
        _ => Shape::Yaml,
    }
}

/// Whether all of it is JSON.
fn is_sound(text: &[u8]) -> bool {
    serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>().all(|value| value.is_ok())
}

/// What a list called `kind` of `api_version` says of its items.
fn listed(api_version: &str, kind: &str) -> Listed {
    match kind.strip_suffix("List") {
        Some(item) if !item.is_empty() => {
            Listed { api_version: api_version.to_owned(), kind: item.to_owned() }
        }
        _ => Listed::default(),
    }
}

#[cfg(test)]
mod tests;
