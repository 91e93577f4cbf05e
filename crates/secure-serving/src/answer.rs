//! Answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode, Version};
use tokio::sync::mpsc;

const TEXT: &str = "text/plain; charset=utf-8";

/// An answer: its whole text, or pieces as they come.
pub type Answer = Response<Either<Full<Bytes>, Pieces>>;

/// A body whose pieces come from a task.
pub struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A text of this type.
#[must_use]
pub fn typed(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(text.into())));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A text for people.
#[must_use]
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, TEXT, text)
}

/// A text whose pieces come from a task.
#[must_use]
pub fn pieces(receiver: mpsc::Receiver<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Right(Pieces(receiver)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// 405 for a path that can only be read.
#[must_use]
pub fn only_get() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    answer
}

/// 401. The connection ends: it has cost enough.
#[must_use]
pub fn unauthorized(version: Version) -> Answer {
    let mut answer = text(StatusCode::UNAUTHORIZED, "Unauthorized");
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// 404 for a path that does not exist.
#[must_use]
pub fn no_path() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
