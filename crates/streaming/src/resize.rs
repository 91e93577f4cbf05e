//! The terminal's sizes, as a client sends them: JSON objects, one after the other.

use serde::Deserialize;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::{mpsc, watch};

use crate::handler::Size;

/// An object that is longer is no size.
const LONGEST: usize = 1024;

/// Reads sizes from pieces of text, cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    text: Vec<u8>,
}

/// What is no size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotASize;

#[derive(Deserialize)]
struct Given {
    #[serde(rename = "Width", alias = "width")]
    width: u16,
    #[serde(rename = "Height", alias = "height")]
    height: u16,
}

impl Sizes {
    /// The last size that is complete with this piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<Option<Size>, NotASize> {
        self.text.extend_from_slice(piece);
        let mut objects = serde_json::Deserializer::from_slice(&self.text).into_iter::<Given>();
        let mut latest = None;
        let mut read = 0;
        while let Some(object) = objects.next() {
            match object {
                Ok(given) => latest = Some(Size { rows: given.height, columns: given.width }),
                Err(cause) if cause.is_eof() => break,
                Err(_) => return Err(NotASize),
            }
            read = objects.byte_offset();
        }
        self.text.drain(..read);
        if self.text.len() > LONGEST { Err(NotASize) } else { Ok(latest) }
    }
}

/// Hands sizes on until the client has gone: the handler, if it is slow, gets the latest. A client that sends anything
/// else than sizes is not listened to any more.
pub(crate) async fn forward(
    source: Option<DuplexStream>,
    receiver: mpsc::Sender<Size>,
    mut gone: watch::Receiver<bool>,
) {
    let (mut source, mut sizes, mut latest) = (source, Sizes::default(), None);
    loop {
        let mut piece = [0; LONGEST];
        tokio::select! {
            _ = gone.wait_for(|gone| *gone) => return,
            permit = receiver.reserve(), if latest.is_some() => match (permit, latest.take()) {
                (Ok(permit), Some(size)) => permit.send(size),
                _ => return,
            },
            read = read(&mut source, &mut piece), if source.is_some() => {
                match sizes.take(piece.get(..read).unwrap_or_default()) {
                    Ok(size) if read > 0 => latest = size.or(latest),
                    _ => source = None,
                }
            }
        }
    }
}

async fn read(source: &mut Option<DuplexStream>, piece: &mut [u8]) -> usize {
    match source {
        Some(source) => source.read(piece).await.unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn size(rows: u16, columns: u16) -> Size {
        Size { rows, columns }
    }

    #[test]
    fn the_latest_of_several_sizes_is_taken() {
        let mut sizes = Sizes::default();
        let text = br#"{"Width":80,"Height":24}{"Width":100,"Height":30}"#;
        assert_eq!(sizes.take(text), Ok(Some(size(30, 100))));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["[]", "{\"Width\":-1,\"Height\":2}", "{\"Width\":65536,\"Height\":2}", "x"] {
            assert_eq!(Sizes::default().take(text.as_bytes()), Err(NotASize), "{text}");
        }
    }

    #[test]
    fn an_object_without_end_is_not_kept() {
        let mut sizes = Sizes::default();
        assert!((0..100).any(|_| sizes.take(&[b' '; 100]).is_err() || sizes.take(b"{\"Width\":").is_err()));
        assert!(sizes.text.len() <= LONGEST + 100);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_text_is_cut(given in prop::collection::vec((any::<u16>(), any::<u16>()), 1..9), cut in 1..40_usize) {
            let text: String = given.iter().map(|(w, h)| format!("{{\"Width\":{w},\"Height\":{h}}}\n")).collect();
            let mut sizes = Sizes::default();
            let mut latest = None;
            for piece in text.as_bytes().chunks(cut) {
                latest = sizes.take(piece).unwrap().or(latest);
            }
            let (w, h) = *given.last().unwrap();
            prop_assert_eq!(latest, Some(size(h, w)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut sizes = Sizes::default();
            for piece in bytes.chunks(100) {
                if sizes.take(piece).is_err() {
                    break;
                }
                prop_assert!(sizes.text.len() <= LONGEST);
            }
        }
    }

    #[tokio::test]
    async fn a_slow_handler_gets_the_latest_size_and_learns_that_the_client_has_gone() {
        let (mut client, source) = tokio::io::duplex(4096);
        let (sender, mut receiver) = mpsc::channel(1);
        let (gone, seen) = watch::channel(false);
        let forwarding = tokio::spawn(forward(Some(source), sender, seen));
        for width in 1..=50 {
            client.write_all(format!("{{\"Width\":{width},\"Height\":1}}").as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut last = receiver.recv().await.unwrap();
        while last.columns != 50 {
            last = receiver.recv().await.unwrap();
        }
        drop(client);
        gone.send_replace(true);
        assert_eq!(receiver.recv().await, None);
        forwarding.await.unwrap();
    }
}
