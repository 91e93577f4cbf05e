//! The readers of what clients send, one function each, for fuzz targets: they return whatever the bytes are.

use crate::resize::Sizes;
use crate::spdy::frame::{Control, Head};
use crate::spdy::headers::Inflater;
use crate::websocket::frame;

/// A SPDY connection's frames, one after the other.
pub fn spdy(bytes: &[u8]) {
    let mut inflater = Inflater::default();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk() {
        let Ok(head) = Head::parse(*head) else { return };
        let (Head::Data { length, .. } | Head::Control { length, .. }) = head;
        let Some((payload, after)) = after.split_at_checked(length) else { return };
        if let Head::Control { kind, flags, .. } = head
            && Control::parse(kind, flags, payload, &mut inflater).is_err()
        {
            return;
        }
        rest = after;
    }
}

/// A WebSocket frame's head.
pub fn websocket(bytes: &[u8]) {
    let _ = frame::Head::parse(bytes);
}

/// A terminal's sizes, in pieces.
pub fn sizes(bytes: &[u8]) {
    let mut sizes = Sizes::default();
    for piece in bytes.chunks(7) {
        if sizes.take(piece).is_err() {
            return;
        }
    }
}
