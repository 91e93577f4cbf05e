/// A run of attributes: each a length, a kind and a value, padded to four bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(Vec<u8>);

/// `NLA_F_NESTED`: the value is a list of attributes.
const NESTED: u16 = 0x8000;
const HEADER: usize = 4;

impl Attributes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // A value that is too long gets a length that the kernel refuses.
        let length = u16::try_from(value.len() + HEADER).unwrap_or(0);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
        self
    }

    pub(crate) fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    /// A NUL-terminated string.
    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// A number in host byte order, as in rtnetlink.
    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A number in network byte order, as in nftables.
    pub(crate) fn number_be(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The attributes in `bytes`, as kind and value; a truncated one ends them.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(HEADER..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind & !(NESTED | 0x4000), value))
    })
}

/// The value of the first attribute of a kind.
pub(crate) fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A value as text, without its NUL.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Attributes::new().text(3, "eth0").number_be(4, 7);
        let written = Attributes::new().bytes(1, &[9]).nest(2, &inner).number(5, 6);
        assert_eq!(written.as_bytes().len() % 4, 0);
        let read: Vec<_> = attributes(written.as_bytes()).collect();
        assert_eq!(read.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(find(written.as_bytes(), 1), Some(&[9][..]));
        let nested = find(written.as_bytes(), 2).unwrap();
        assert_eq!(text(find(nested, 3).unwrap()), "eth0");
        assert_eq!(find(nested, 4), Some(&[0, 0, 0, 7][..]));
    }

    #[test]
    fn no_bytes_make_the_reader_fail() {
        let whole = Attributes::new().text(3, "a-name").number(4, 5).as_bytes().to_vec();
        for cut in 0..whole.len() {
            assert!(attributes(&whole[..cut]).count() <= 2);
        }
        // Lengths of nothing, of less than a header, and of more than there is.
        for length in [0_u16, 1, 3, 5, 0xffff] {
            let mut bytes = whole.clone();
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert!(attributes(&bytes).count() <= 3, "{length}");
        }
    }

    #[test]
    fn what_is_too_long_gets_a_length_that_the_kernel_refuses() {
        let written = Attributes::new().bytes(1, &vec![0; 70_000]);
        assert_eq!(&written.as_bytes()[..2], &[0, 0]);
    }
}
