//! Replaces the server's name in the requests of an HTTP/2 connection; see [`authority`](crate::authority).

use crate::authority;

/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame's header.
const HEADER: usize = 9;
/// The longest frame that a server takes that has not allowed longer ones.
const LONGEST_FRAME: usize = 1 << 14;
/// The longest header block that is taken apart: more is not taken by the server either.
const LONGEST_BLOCK: usize = 1 << 16;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Preface,
    FrameHeader,
    /// The rest of a frame that is passed on: so many bytes.
    Payload(usize),
    /// A frame of a header block: its length without header.
    Block(usize),
    /// All that follows is passed on as it is: the server will find out what is wrong.
    Anything,
}

/// Reads what a client sends, and says what the server gets instead.
#[derive(Debug)]
pub(crate) struct Rewriter {
    next: Next,
    /// Bytes of the preface, of a frame's header, or of the frames of a header block.
    held: Vec<u8>,
    /// Where in `held` the newest frame begins.
    frame: usize,
    block: Option<Block>,
}

/// A header block whose frames are being read.
#[derive(Debug, Default)]
struct Block {
    stream: [u8; 4],
    flags: u8,
    fragments: Vec<u8>,
}

impl Rewriter {
    pub(crate) fn new() -> Self {
        Self { next: Next::Preface, held: Vec::new(), frame: 0, block: None }
    }

    /// Takes what came from the client, and adds what the server gets to `out`.
    pub(crate) fn push(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            let wanted = match self.next {
                Next::Preface => PREFACE.len() - self.held.len(),
                Next::FrameHeader => (self.frame + HEADER).saturating_sub(self.held.len()),
                Next::Block(length) => (self.frame + HEADER + length).saturating_sub(self.held.len()),
                Next::Payload(length) => length,
                Next::Anything => usize::MAX,
            };
            let (taken, rest) = input.split_at(wanted.min(input.len()));
            input = rest;
            match self.next {
                Next::Anything => out.extend(taken),
                Next::Payload(length) => {
                    out.extend(taken);
                    self.next = match length - taken.len() {
                        0 => Next::FrameHeader,
                        left => Next::Payload(left),
                    };
                }
                Next::Preface | Next::FrameHeader | Next::Block(_) => {
                    self.held.extend(taken);
                    if taken.len() == wanted {
                        self.complete(out);
                    }
                }
            }
        }
    }

    /// What was waited for is held completely.
    fn complete(&mut self, out: &mut Vec<u8>) {
        match self.next {
            Next::Preface if self.held == PREFACE => self.pass(Next::FrameHeader, out),
            Next::FrameHeader => self.frame_header(out),
            Next::Block(_) => self.block_frame(out),
            _ => self.pass(Next::Anything, out),
        }
    }

    /// Passes what is held on as it is.
    fn pass(&mut self, next: Next, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        (self.frame, self.next, self.block) = (0, next, None);
    }

    fn frame_header(&mut self, out: &mut Vec<u8>) {
        let Some([high, middle, low, kind, ..]) = self.held.get(self.frame..) else { return };
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let is_expected = match *kind {
            HEADERS => self.block.is_none(),
            CONTINUATION => self.block.is_some(),
            _ if self.block.is_none() => {
                let next = if length == 0 { Next::FrameHeader } else { Next::Payload(length) };
                return self.pass(next, out);
            }
            _ => false,
        };
        if !is_expected || length > LONGEST_FRAME || self.held.len() + length > LONGEST_BLOCK {
            return self.pass(Next::Anything, out);
        }
        self.next = Next::Block(length);
        if length == 0 {
            self.block_frame(out);
        }
    }

    /// A frame of a header block is held completely.
    fn block_frame(&mut self, out: &mut Vec<u8>) {
        let Some((flags, fragment)) = self.fragment() else { return self.pass(Next::Anything, out) };
        let block = self.block.get_or_insert_default();
        block.fragments.extend(fragment);
        if flags & END_HEADERS == 0 {
            (self.frame, self.next) = (self.held.len(), Next::FrameHeader);
            return;
        }
        match authority::replaced(&block.fragments) {
            Some(fragments) => {
                let block = Block { fragments, stream: block.stream, flags: block.flags };
                block.write(out);
                self.held.clear();
                (self.frame, self.next, self.block) = (0, Next::FrameHeader, None);
            }
            None => self.pass(Next::Anything, out),
        }
    }

    /// The flags of the newest frame, and its part of the header block.
    fn fragment(&mut self) -> Option<(u8, Vec<u8>)> {
        let [_, _, _, kind, flags, stream @ ..] = self.held.get(self.frame..)? else { return None };
        let (stream, mut payload) = stream.split_at_checked(4)?;
        if *kind == HEADERS {
            if flags & PADDED != 0 {
                let (padding, rest) = payload.split_first()?;
                payload = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
            }
            if flags & PRIORITY != 0 {
                payload = payload.get(5..)?;
            }
            let stream = stream.try_into().ok()?;
            self.block = Some(Block { stream, flags: flags & END_STREAM, fragments: Vec::new() });
        }
        Some((*flags, payload.to_vec()))
    }
}

impl Block {
    /// Writes it as frames, without padding and priority.
    fn write(&self, out: &mut Vec<u8>) {
        let mut frames = self.fragments.chunks(LONGEST_FRAME).peekable();
        let mut kind = HEADERS;
        let mut flags = self.flags;
        loop {
            let fragment = frames.next().unwrap_or_default();
            if frames.peek().is_none() {
                flags |= END_HEADERS;
            }
            // At most 2^14.
            let [.., high, middle, low] = fragment.len().to_be_bytes();
            out.extend([high, middle, low, kind, flags]);
            out.extend(self.stream);
            out.extend(fragment);
            if flags & END_HEADERS != 0 {
                return;
            }
            (kind, flags) = (CONTINUATION, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let [.., high, middle, low] = payload.len().to_be_bytes();
        [&[high, middle, low, kind, flags, 0, 0, 0, 7][..], payload].concat()
    }

    /// `:method: POST` and `:authority: /x`.
    const BLOCK: &[u8] = &[0x83, 0x41, 2, b'/', b'x'];
    const REPLACED: &[u8] = &[0x83, 0x41, 1, b'k'];

    fn rewritten(input: &[u8], piece: usize) -> Vec<u8> {
        let (mut rewriter, mut out) = (Rewriter::new(), Vec::new());
        input.chunks(piece).for_each(|piece| rewriter.push(piece, &mut out));
        out
    }

    fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
        let input = [PREFACE, &frames.concat()].concat();
        let expected = [PREFACE, &expected.concat()].concat();
        for piece in [1, 2, 7, 1000, 1 << 20] {
            assert_eq!(rewritten(&input, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn headers_are_rewritten_and_other_frames_pass() {
        let (settings, data) = (frame(4, 0, &[]), frame(0, 1, b"\0\0\0\0\x02hi"));
        check(
            &[
                settings.clone(),
                frame(HEADERS, END_HEADERS, BLOCK),
                data.clone(),
                frame(HEADERS, END_HEADERS | 1, BLOCK),
            ],
            &[
                settings,
                frame(HEADERS, END_HEADERS, REPLACED),
                data,
                frame(HEADERS, END_HEADERS | 1, REPLACED),
            ],
        );
    }

    #[test]
    fn padding_priority_and_continuations_are_read() {
        let padded = [&[3, 0, 0, 0, 0, 16][..], BLOCK, &[0, 0, 0]].concat();
        let whole = frame(HEADERS, END_HEADERS | END_STREAM, REPLACED);
        check(
            &[frame(HEADERS, END_HEADERS | END_STREAM | PADDED | PRIORITY, &padded)],
            std::slice::from_ref(&whole),
        );
        let parts = [
            frame(HEADERS, END_STREAM, &BLOCK[..2]),
            frame(CONTINUATION, 0, &[]),
            frame(CONTINUATION, END_HEADERS, &BLOCK[2..]),
        ];
        check(&parts, &[whole]);
    }

    #[test]
    fn a_long_block_is_written_as_several_frames() {
        // A literal without index, with a name and a value of their own.
        let mut long = vec![0x00, 1, b'x', 0x7f, 0xf1, 0xa6, 0x01];
        long.extend(vec![b'v'; 21_488]);
        let (first, second) = (&long[..LONGEST_FRAME], &long[LONGEST_FRAME..]);
        let frames = [frame(HEADERS, 0, first), frame(CONTINUATION, END_HEADERS, second)];
        check(&frames, &frames);
    }

    #[test]
    fn what_is_malformed_reaches_the_server_as_it_is() {
        let after = frame(HEADERS, END_HEADERS, BLOCK);
        let wrong = [
            vec![frame(HEADERS, END_HEADERS, &[0x41])],
            vec![frame(HEADERS, END_HEADERS | PADDED, &[9, 0x83])],
            vec![frame(HEADERS, 0, BLOCK), frame(0, 0, b"data")],
            vec![frame(CONTINUATION, END_HEADERS, BLOCK)],
            vec![frame(HEADERS, END_HEADERS, &vec![0x83; LONGEST_FRAME + 1])],
        ];
        for mut frames in wrong {
            frames.push(after.clone());
            check(&frames, &frames);
        }
        let endless: Vec<Vec<u8>> = (0..5)
            .map(|index| {
                frame(if index == 0 { HEADERS } else { CONTINUATION }, 0, &vec![0x83; LONGEST_FRAME])
            })
            .collect();
        check(&endless, &endless);
        let other = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
        assert_eq!(rewritten(&other, 5), other);
    }

    proptest! {
        #[test]
        fn any_bytes_pass_without_harm(input in prop::collection::vec(any::<u8>(), 0..2000), piece in 1usize..64) {
            let input = [PREFACE, &input].concat();
            let found = rewritten(&input, piece);
            prop_assert!(found.len() <= input.len());
            prop_assert_eq!(found, rewritten(&input, input.len()), "pieces do not count");
        }
    }
}
