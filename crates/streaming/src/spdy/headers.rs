//! A client's headers: compressed, all of a connection in one zlib stream.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::dictionary;
use super::frame::Violation;

/// How far back a stream can refer; also the length of the buffer that is written round and round.
const WINDOW: usize = 32 << 10;

/// The longest that the headers of one stream may be when they are out. A few kilobytes can stand for megabytes.
const LONGEST: usize = 16 << 10;

/// How many headers a stream may have.
const MOST: u32 = 64;

/// Names, in lower case, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Reads a block of names and values, as it is when it is out.
    pub(super) fn parse(block: &[u8]) -> Result<Self, Violation> {
        let (count, mut rest) = number(block)?;
        if count > MOST {
            return Err(Violation::Headers);
        }
        let mut headers = Vec::new();
        for _ in 0..count {
            let (name, after) = text(rest)?;
            let (value, after) = text(after)?;
            if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return Err(Violation::Headers);
            }
            headers.push((name, value));
            rest = after;
        }
        if rest.is_empty() { Ok(Self(headers)) } else { Err(Violation::Headers) }
    }
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Violation> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Violation::Headers)?;
    Ok((u32::from_be_bytes(*number), rest))
}

fn text(bytes: &[u8]) -> Result<(String, &[u8]), Violation> {
    let (length, rest) = number(bytes)?;
    let length = usize::try_from(length).map_err(|_| Violation::Headers)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(Violation::Headers)?;
    Ok((String::from_utf8(text.to_vec()).map_err(|_| Violation::Headers)?, rest))
}

/// Inflates the headers of a connection, which have to come in their order.
pub(crate) struct Inflater {
    state: Box<DecompressorOxide>,
    /// What was inflated last, the dictionary before all.
    window: Vec<u8>,
    at: usize,
    begun: bool,
}

impl Default for Inflater {
    fn default() -> Self {
        let mut window = dictionary::bytes();
        let at = window.len();
        window.resize(WINDOW, 0);
        Self { state: Box::default(), window, at, begun: false }
    }
}

impl Inflater {
    /// The headers in one frame.
    pub(crate) fn headers(&mut self, compressed: &[u8]) -> Result<Headers, Violation> {
        let compressed = if self.begun { compressed } else { begin(compressed)? };
        self.begun = true;
        Headers::parse(&self.inflate(compressed)?)
    }

    fn inflate(&mut self, compressed: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut block = Vec::new();
        let mut rest = compressed;
        loop {
            let (status, taken, made) =
                decompress(&mut self.state, rest, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            block.extend_from_slice(self.window.get(self.at..self.at + made).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
            self.at = (self.at + made) % WINDOW;
            if block.len() > LONGEST {
                return Err(Violation::Headers);
            }
            match status {
                TINFLStatus::NeedsMoreInput if rest.is_empty() => return Ok(block),
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(Violation::Headers),
            }
        }
    }
}

/// What is behind zlib's own header, which has to name our dictionary.
fn begin(compressed: &[u8]) -> Result<&[u8], Violation> {
    let (&[method, flags], rest) = compressed.split_first_chunk().ok_or(Violation::Headers)?;
    let deflate = method & 0x0f == 8 && method >> 4 <= 7;
    let sound = u16::from_be_bytes([method, flags]).is_multiple_of(31);
    let named = flags & 0x20 != 0;
    match rest.split_first_chunk() {
        Some((&dictionary::ID, rest)) if deflate && sound && named => Ok(rest),
        _ => Err(Violation::Headers),
    }
}

/// Deflates headers: stored as they are, which every inflater takes.
#[derive(Default)]
pub(crate) struct Deflater {
    begun: bool,
}

impl Deflater {
    /// A block that says: no headers.
    pub(crate) fn none(&mut self) -> Vec<u8> {
        self.block(&[])
    }

    /// A block with these, which are few and short.
    pub(crate) fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let long = |length: usize| u32::try_from(length).unwrap_or_default().to_be_bytes();
        let mut plain = long(headers.len()).to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&long(text.len()));
            plain.extend_from_slice(text.as_bytes());
        }
        let mut block = Vec::new();
        if !self.begun {
            self.begun = true;
            block.extend_from_slice(&[0x78, 0xbb]);
            block.extend_from_slice(&dictionary::ID);
        }
        // A stored block, not the last: its length, the complement, and then it. An empty one behind it, as
        // flushing leaves it: inflaters do not hand out a block while they look for the next.
        let length = u16::try_from(plain.len()).unwrap_or_default();
        block.push(0);
        block.extend_from_slice(&length.to_le_bytes());
        block.extend_from_slice(&(!length).to_le_bytes());
        block.extend_from_slice(&plain);
        block.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
        block
    }
}
