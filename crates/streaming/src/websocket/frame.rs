//! WebSocket's frames (RFC 6455 §5.2), as a server sees them.

/// The longest payload of a frame that is not data.
pub(crate) const LONGEST_CONTROL: u64 = 125;

/// The longest a frame's head can be.
pub(crate) const LONGEST_HEAD: usize = 14;

/// A status for the end of a connection that went well.
pub(crate) const NORMAL: u16 = 1000;

/// A status for a client that does not keep to the protocol.
pub(crate) const PROTOCOL_ERROR: u16 = 1002;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// What comes before a client's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// Whether a message ends with this frame.
    pub(crate) fin: bool,
    pub(crate) mask: [u8; 4],
    pub(crate) length: u64,
}

/// What no client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("reserved bits or an unknown kind of frame")]
    Unknown,
    #[error("a frame that is not masked")]
    Unmasked,
    #[error("a control frame that is long or in pieces")]
    Control,
    #[error("a length with its highest bit set")]
    Length,
}

impl Head {
    /// How long a head is that begins with these two bytes.
    pub(crate) fn size(start: [u8; 2]) -> usize {
        let [_, length] = start;
        let extended = match length & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if length & 0x80 == 0 { 0 } else { 4 };
        2 + extended + mask
    }

    /// Reads a head; `None` if it is not complete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let Some((&[first, second], rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let kind = kind(first)?;
        if second & 0x80 == 0 {
            return Err(Violation::Unmasked);
        }
        let Some((length, rest)) = length(second & 0x7f, rest) else { return Ok(None) };
        let fin = first & 0x80 != 0;
        let control = matches!(kind, Kind::Close | Kind::Ping | Kind::Pong);
        if control && (length > LONGEST_CONTROL || !fin) {
            return Err(Violation::Control);
        }
        if length >> 63 != 0 {
            return Err(Violation::Length);
        }
        let Some((&mask, _)) = rest.split_first_chunk() else { return Ok(None) };
        Ok(Some(Self { kind, fin, mask, length }))
    }

    /// Reveals a piece of the payload that begins `at` bytes into it.
    pub(crate) fn unmask(&self, piece: &mut [u8], at: u64) {
        let skip = usize::try_from(at % 4).unwrap_or_default();
        for (byte, mask) in piece.iter_mut().zip(self.mask.iter().cycle().skip(skip)) {
            *byte ^= mask;
        }
    }
}

fn kind(first: u8) -> Result<Kind, Violation> {
    match first & 0x7f {
        0x0 => Ok(Kind::Continuation),
        0x1 => Ok(Kind::Text),
        0x2 => Ok(Kind::Binary),
        0x8 => Ok(Kind::Close),
        0x9 => Ok(Kind::Ping),
        0xa => Ok(Kind::Pong),
        _ => Err(Violation::Unknown),
    }
}

fn length(short: u8, rest: &[u8]) -> Option<(u64, &[u8])> {
    match short {
        126 => rest.split_first_chunk().map(|(bytes, rest)| (u64::from(u16::from_be_bytes(*bytes)), rest)),
        127 => rest.split_first_chunk().map(|(bytes, rest)| (u64::from_be_bytes(*bytes), rest)),
        short => Some((u64::from(short), rest)),
    }
}

/// A frame of ours: a message of two parts in one frame.
fn encode(opcode: u8, start: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = start.len() + rest.len();
    let mut frame = Vec::with_capacity(length + 10);
    frame.push(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => frame.push(short),
        (_, Ok(long)) => {
            frame.push(126);
            frame.extend_from_slice(&long.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    frame.extend_from_slice(start);
    frame.extend_from_slice(rest);
    frame
}

pub(crate) fn binary(start: &[u8], rest: &[u8]) -> Vec<u8> {
    encode(0x2, start, rest)
}

/// Text, which has to be in UTF-8.
pub(crate) fn text(start: &[u8], rest: &[u8]) -> Vec<u8> {
    encode(0x1, start, rest)
}

pub(crate) fn close(status: u16) -> Vec<u8> {
    encode(0x8, &status.to_be_bytes(), &[])
}

/// Answers a ping, with what came in it.
pub(crate) fn pong(payload: &[u8]) -> Vec<u8> {
    encode(0xa, payload, &[])
}

/// A ping without payload.
pub(crate) const PING: [u8; 2] = [0x89, 0];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(kind: Kind, length: u64) -> Head {
        Head { kind, fin: true, mask: [1, 2, 3, 4], length }
    }

    #[test]
    fn each_form_of_a_length_is_read() {
        assert_eq!(Head::parse(&[0x82, 0x85, 1, 2, 3, 4]), Ok(Some(head(Kind::Binary, 5))));
        assert_eq!(Head::parse(&[0x81, 0xfe, 1, 0, 1, 2, 3, 4]), Ok(Some(head(Kind::Text, 256))));
        let long = [0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(Head::parse(&long), Ok(Some(head(Kind::Binary, 1 << 32))));
    }

    #[test]
    fn what_no_client_may_send_is_refused() {
        assert_eq!(Head::parse(&[0x82, 0x05, 1, 2, 3, 4]), Err(Violation::Unmasked));
        assert_eq!(Head::parse(&[0xc2, 0x85, 1, 2, 3, 4]), Err(Violation::Unknown));
        assert_eq!(Head::parse(&[0x83, 0x85, 1, 2, 3, 4]), Err(Violation::Unknown));
        assert_eq!(Head::parse(&[0x89, 0xfe, 0, 126, 1, 2, 3, 4]), Err(Violation::Control));
        assert_eq!(Head::parse(&[0x09, 0x81, 1, 2, 3, 4]), Err(Violation::Control));
        let long = [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(Head::parse(&long), Err(Violation::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(Some(_)) = Head::parse(&bytes) {
                let size = Head::size([bytes[0], bytes[1]]);
                prop_assert!(size <= LONGEST_HEAD && size <= bytes.len());
                prop_assert_eq!(Head::parse(&bytes[..size - 1]), Ok(None));
            }
        }

        #[test]
        fn a_payload_is_the_same_however_it_is_cut(payload in prop::collection::vec(any::<u8>(), 0..100), mask: [u8; 4], cut in 1..50_usize) {
            let head = Head { mask, ..head(Kind::Binary, 0) };
            let mut whole = payload.clone();
            head.unmask(&mut whole, 0);
            let mut pieces = payload;
            let mut at = 0;
            for piece in pieces.chunks_mut(cut) {
                head.unmask(piece, at);
                at += u64::try_from(piece.len()).unwrap();
            }
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn what_is_sent_has_its_length_in_front(length in prop_oneof![0..300_usize, 65_000..70_000_usize]) {
            let payload = vec![9; length];
            let mut frame = binary(&[7], &payload);
            frame[1] |= 0x80;
            let size = Head::size([frame[0], frame[1]]) - 4;
            let mut start = frame[..size].to_vec();
            start.extend([0; 4]);
            let head = Head::parse(&start).unwrap().unwrap();
            prop_assert_eq!(usize::try_from(head.length).unwrap(), payload.len() + 1);
            prop_assert_eq!(&frame[size + 1..], &payload[..]);
        }
    }
}
