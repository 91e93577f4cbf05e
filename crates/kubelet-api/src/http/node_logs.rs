use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tracing::debug;

use super::answer::{Answer, kept, pieces};
use super::handler::{Handler, Refused};
use super::kept::Kept;
use super::places::Place;
use crate::node_logs::{Found, NodeLogError, Rest};

const HTML: &str = "text/html; charset=utf-8";
/// Pieces that wait for the client.
const WAITING: usize = 2;

impl Handler {
    /// A file of the node's logs, as it is now, or the names in a directory of them, for a user.
    pub(super) async fn node_log(&self, path: &str, user: &str) -> Result<Answer, Refused> {
        let logs = self.node_logs.clone().ok_or(NodeLogError::Missing)?;
        let place = self.logs.take(user)?;
        let path = path.to_owned();
        let found = tokio::task::spawn_blocking(move || logs.open(&path)).await;
        match found.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?? {
            Found::Listing(html) => Ok(kept(HTML, Kept::new(html, place, None))),
            Found::File(rest) => {
                let (sender, receiver) = mpsc::channel(WAITING);
                tokio::spawn(send(rest, sender, place));
                Ok(pieces(receiver))
            }
        }
    }
}

async fn send(mut rest: Rest, sender: mpsc::Sender<Bytes>, place: Place) {
    let _place = place;
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let piece = rest.read();
            (rest, piece)
        });
        let Ok((back, piece)) = read.await else { return };
        rest = back;
        match piece {
            Ok(piece) if piece.is_empty() => return,
            Ok(piece) => {
                if sender.send(piece.into()).await.is_err() {
                    return;
                }
            }
            Err(error) => return debug!("a log of the node cannot be read to its end: {error}"),
        }
    }
}

impl From<NodeLogError> for Refused {
    fn from(error: NodeLogError) -> Self {
        let status = match error {
            NodeLogError::Missing => StatusCode::NOT_FOUND,
            NodeLogError::NotALog => StatusCode::FORBIDDEN,
            NodeLogError::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
