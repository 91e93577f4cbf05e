use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::kept::{Kept, NotTaken};

const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) type Answer = Response<AnswerBody>;

/// The body of an answer.
pub(crate) enum AnswerBody {
    /// A whole text, until it is sent.
    Text(Option<Bytes>),
    /// A text that counts until its client has taken it.
    Kept(Kept),
    /// Pieces that come from a task.
    Pieces(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = NotTaken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotTaken>>> {
        let piece = match &mut *self {
            Self::Text(text) => text.take().map(Ok),
            Self::Kept(kept) => kept.next(),
            Self::Pieces(pieces) => ready!(pieces.poll_recv(context)).map(Ok),
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Kept(kept) => kept.has_ended(),
            Self::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let exact = |bytes: usize| SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX));
        match self {
            Self::Text(text) => exact(text.as_ref().map_or(0, Bytes::len)),
            Self::Kept(kept) => exact(kept.left()),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

fn with_body(status: StatusCode, kind: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A text of this type.
pub(super) fn typed(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let text: Bytes = text.into();
    with_body(status, kind, AnswerBody::Text(Some(text).filter(|text| !text.is_empty())))
}

/// A text of this type that counts until its client has taken it.
pub(super) fn kept(kind: &'static str, text: Kept) -> Answer {
    with_body(StatusCode::OK, kind, AnswerBody::Kept(text))
}

/// A text for people.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, TEXT, text)
}

/// A text whose pieces come from a task.
pub(super) fn pieces(receiver: mpsc::Receiver<Bytes>) -> Answer {
    with_body(StatusCode::OK, TEXT, AnswerBody::Pieces(receiver))
}

/// 405 for a path that can only be read.
pub(super) fn only_get() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    answer
}

/// 405 for what the configuration turns off, with the kubelet's words.
pub(super) fn disabled(words: &'static str) -> Answer {
    text(StatusCode::METHOD_NOT_ALLOWED, words)
}

/// 404 for a path that does not exist.
pub(super) fn no_path() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
