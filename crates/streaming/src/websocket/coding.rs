//! How bytes are written in messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::frame;

/// The two ways there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// As they are, behind the channel's number.
    Plain,
    /// As text, in base64, behind the channel's digit: for clients that cannot do otherwise.
    Base64,
}

impl Coding {
    /// A message for a channel.
    pub(crate) fn message(self, channel: u8, piece: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => frame::binary(&[channel], piece),
            Self::Base64 => frame::text(&[channel.wrapping_add(b'0')], STANDARD.encode(piece).as_bytes()),
        }
    }

    /// The channel that a message's first byte names.
    pub(super) fn channel(self, first: u8) -> u8 {
        match self {
            Self::Plain => first,
            Self::Base64 => first.wrapping_sub(b'0'),
        }
    }
}

/// Reads base64 from pieces, cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Less than the four characters that stand for three bytes.
    rest: Vec<u8>,
}

impl Decoder {
    /// What is complete with this piece; `None` if it is no base64.
    pub(super) fn take(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        self.rest.extend_from_slice(piece);
        let whole = self.rest.len() - self.rest.len() % 4;
        let decoded = STANDARD.decode(self.rest.get(..whole)?).ok()?;
        self.rest.drain(..whole);
        Some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_are_the_same_however_their_text_is_cut(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1..50_usize) {
            let text = STANDARD.encode(&bytes);
            let mut decoder = Decoder::default();
            let pieces = text.as_bytes().chunks(cut).map(|piece| decoder.take(piece).unwrap());
            prop_assert_eq!(pieces.collect::<Vec<_>>().concat(), bytes);
        }

        #[test]
        fn any_text_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            for piece in bytes.chunks(10) {
                if decoder.take(piece).is_none() {
                    break;
                }
                prop_assert!(decoder.rest.len() < 4);
            }
        }
    }
}
