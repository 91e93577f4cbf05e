//! The server's name in the headers of a request, as HPACK (RFC 7541) has them.
//!
//! Go's gRPC clients that dial a Unix socket by its path name that path as the server, which our HTTP library takes for
//! malformed: it resets every request. Here the name is replaced before the library sees it. A header block is not decoded for
//! that, only taken apart: the name is the value of a literal field whose name is the first entry of the static table. A shorter
//! value in its place leaves the dynamic tables of both sides in step: the server keeps at least the entries that the client
//! counts on.

/// The entry `:authority` of the static table.
const AUTHORITY: u64 = 1;
/// A name that every server takes, and none is shorter.
const REPLACEMENT: &[u8] = b"k";

/// What one byte at the beginning of a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An entry of a table, or a new size of the dynamic one: an integer with a prefix of so many bits.
    Integer(u8),
    /// A name, by an integer with a prefix of so many bits or as a string, and a value.
    Literal(u8),
}

impl Kind {
    fn of(byte: u8) -> Self {
        match byte {
            0x80.. => Self::Integer(7),
            0x40..0x80 => Self::Literal(6),
            0x20..0x40 => Self::Integer(5),
            0x00..0x20 => Self::Literal(4),
        }
    }
}

/// The header block with another server's name; `None` if it is malformed.
pub(crate) fn replaced(block: &[u8]) -> Option<Vec<u8>> {
    let mut rest = Reader { bytes: block };
    let mut out = Vec::with_capacity(block.len());
    while let Some(first) = rest.bytes.first() {
        let before = rest.bytes;
        match Kind::of(*first) {
            Kind::Integer(bits) => {
                rest.integer(bits)?;
                out.extend(before.get(..before.len() - rest.bytes.len())?);
            }
            Kind::Literal(bits) => {
                let index = rest.integer(bits)?;
                if index == 0 {
                    rest.string()?;
                }
                out.extend(before.get(..before.len() - rest.bytes.len())?);
                let value = rest.string()?;
                match value.content {
                    [_, ..] if index == AUTHORITY => {
                        out.push(u8::try_from(REPLACEMENT.len()).ok()?);
                        out.extend(REPLACEMENT);
                    }
                    _ => out.extend(value.whole),
                }
            }
        }
    }
    Some(out)
}

/// What of a header block is not read yet.
#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
}

/// A string with its length, and without.
struct Text<'a> {
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// An integer whose first byte has so many bits of it.
    fn integer(&mut self, bits: u8) -> Option<u64> {
        let mask = u64::from(u8::MAX >> (8 - bits));
        let mut value = u64::from(self.byte()?) & mask;
        if value < mask {
            return Some(value);
        }
        // Four more bytes are more than any length or index that the server takes.
        for shift in [0, 7, 14, 21] {
            let byte = u64::from(self.byte()?);
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let before = self.bytes;
        // The first bit says whether it is in Huffman's code, which does not matter here.
        let length = usize::try_from(self.integer(7)?).ok()?;
        let content = self.bytes.get(..length)?;
        self.bytes = self.bytes.get(length..)?;
        let whole = before.get(..before.len() - self.bytes.len())?;
        Some(Text { whole, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    /// The examples of RFC 7541, C.3 and C.4.
    #[test]
    fn the_servers_name_is_replaced_and_nothing_else() {
        let plain = bytes("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d");
        assert_eq!(replaced(&plain).unwrap(), bytes("8286 8441 016b"));
        // The name is in the dynamic table by now.
        let second = bytes("8286 84be 5808 6e6f 2d63 6163 6865");
        assert_eq!(replaced(&second).unwrap(), second);
        let huffman = bytes("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
        assert_eq!(replaced(&huffman).unwrap(), bytes("8286 8441 016b"));
        let third = bytes("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65");
        assert_eq!(replaced(&third).unwrap(), third);
    }

    #[test]
    fn a_name_that_is_not_indexed_is_replaced_too() {
        for first in ["01", "11"] {
            let block = bytes(&format!("{first} 03 252f 61 82"));
            assert_eq!(replaced(&block).unwrap(), bytes(&format!("{first} 016b 82")));
        }
        let empty = bytes("4100");
        assert_eq!(replaced(&empty).unwrap(), empty, "a longer one would grow the table");
    }

    #[test]
    fn what_is_cut_off_is_malformed() {
        for block in ["41", "410f77", "400a63", "ff", "7fffffffffff01", "1f"] {
            assert_eq!(replaced(&bytes(block)), None, "{block}");
        }
        assert_eq!(replaced(&[]), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm_and_never_grow(block in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(found) = replaced(&block) {
                prop_assert!(found.len() <= block.len());
                prop_assert_eq!(replaced(&found), Some(found.clone()), "once is enough");
            }
        }
    }
}
