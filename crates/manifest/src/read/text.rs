use super::{MAX_BYTES, Stop};
use crate::finding::Problem;
use crate::place::Position;

/// The text of these bytes, without a byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, Stop> {
    if bytes.len() > MAX_BYTES {
        return Err(Stop::new(Position::START, Problem::TooMuch { what: "bytes", limit: MAX_BYTES }));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => Err(not_text(bytes, error.valid_up_to())),
    }
}

fn not_text(bytes: &[u8], offset: usize) -> Stop {
    let before = bytes.get(..offset).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default();
    Stop::new(end_of(before), Problem::NotUtf8 { offset })
}

/// The place just after a text.
fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    Position::new(line, column)
}

/// The first character that a YAML text may not have.
///
/// U+0085, U+2028 and U+2029 end a line in YAML 1.1, which Kubernetes reads, and do not in YAML 1.2:
/// a text that has one could say two things, so it is not read.
pub(super) fn refused_character(text: &str) -> Option<Stop> {
    let (offset, character) = text.char_indices().find(|(_, c)| !is_allowed(*c))?;
    let at = end_of(text.get(..offset).unwrap_or_default());
    Some(Stop::new(at, Problem::Character { code: u32::from(character) }))
}

fn is_allowed(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | ' '..='~' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' => false,
        '\u{a0}'..='\u{fffd}' | '\u{10000}'.. => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_place() {
        let stop = decode(b"a: b\nc: \xff\n").unwrap_err();
        assert_eq!(stop.problem, Problem::NotUtf8 { offset: 8 });
        assert_eq!(stop.at, Position { line: 2, column: 4 });
        assert!(decode(b"\xff\xfea\0").is_err());
    }

    #[test]
    fn a_byte_order_mark_is_no_content() {
        assert_eq!(decode("\u{feff}a: b".as_bytes()).unwrap(), "a: b");
    }

    #[test]
    fn characters_that_yaml_readers_disagree_on_are_refused() {
        for bad in ["\u{0}", "\u{7}", "\u{7f}", "\u{85}", "\u{2028}", "\u{feff}", "\u{ffff}"] {
            let stop = refused_character(&format!("a: ö\nb: {bad}")).unwrap();
            assert_eq!(stop.at, Position { line: 2, column: 4 }, "{bad:?}");
        }
        assert_eq!(refused_character("a: \"äöü€😀\"\r\n\tb"), None);
    }
}
