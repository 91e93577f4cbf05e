//! What comes from pods, images and registries, made harmless for a terminal: escape sequences in it could change the
//! title, the clipboard or what was printed before, or have the terminal type an answer.

use std::borrow::Cow;
use std::fmt::Write;

/// A text with its control characters shown instead of obeyed: all but tab and newline, DEL, those of C1, and those
/// that change the direction of writing.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_control(c) => shown.push(c),
            // As terminals show what is typed: ^[ for ESC.
            '\0'..='\u{1f}' | '\u{7f}' => shown.extend(['^', caret(c)]),
            // Writing to memory does not fail.
            c => drop(write!(shown, "{}", c.escape_unicode())),
        }
    }
    Cow::Owned(shown)
}

fn is_control(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || changes_direction
}

fn caret(c: char) -> char {
    u8::try_from(c).map_or('?', |byte| char::from(byte ^ 0x40))
}

/// [`printable`] for a stream of bytes: keeps the first bytes of a character that the end of a piece cuts.
#[derive(Debug, Default)]
pub struct Pieces {
    /// The begin of a character; at most three bytes.
    begun: Vec<u8>,
}

impl Pieces {
    /// What can be shown of this piece and the one before. What is no UTF-8 is shown as U+FFFD.
    pub fn next(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        let whole = bytes.len() - cut(&bytes);
        self.begun = bytes.split_off(whole);
        printable(&String::from_utf8_lossy(&bytes)).into_owned()
    }
}

/// How many bytes at the end begin a character that may go on.
fn cut(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(_) => {
            let tail = bytes.len().saturating_sub(3);
            let is_cut = |from: &usize| {
                let end = bytes.get(*from..).unwrap_or_default();
                std::str::from_utf8(end).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
            };
            (tail..bytes.len()).find(is_cut).map_or(0, |from| bytes.len() - from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("plain\tä\n"), "plain\tä\n");
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
        assert_eq!(printable("\x1b]0;title\x07\r\x7f\0"), "^[]0;title^G^M^?^@");
        assert_eq!(printable("\u{9b}2J\u{85}"), "\\u{9b}2J\\u{85}");
        assert_eq!(printable("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
    }

    #[test]
    fn characters_that_are_cut_between_pieces_stay_whole() {
        let text = "ä€😀\x1b[2J".as_bytes();
        for size in 1..text.len() {
            let mut pieces = Pieces::default();
            let shown: String = text.chunks(size).map(|piece| pieces.next(piece)).collect();
            assert_eq!(shown, "ä€😀^[[2J", "pieces of {size}");
        }
    }

    /// C1 as a raw byte, and bytes that begin no character.
    #[test]
    fn what_is_no_utf_8_reaches_no_terminal() {
        let mut pieces = Pieces::default();
        let shown = pieces.next(b"a\x9b2J\xff\xc3\x1b");
        assert_eq!(shown, "a\u{fffd}2J\u{fffd}\u{fffd}^[");
    }

    #[test]
    fn no_byte_sequence_leaves_a_control_character() {
        let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut pieces = Pieces::default();
        for _ in 0..20_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let shown = pieces.next(&dice.to_le_bytes());
            assert!(!shown.chars().any(is_control) && pieces.begun.len() <= 3, "{shown:?}");
        }
    }
}
