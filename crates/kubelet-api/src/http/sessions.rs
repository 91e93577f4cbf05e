//! Exec, attach, port-forward and run.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, pieces, text};
use super::handler::{Handler, Refused};
use super::route::{OfContainer, OfPod};
use crate::pods::ServedPod;
use crate::streams::{
    Asked, RunOutput, Session, StreamError, Tunnel, Upgraded, command, open, wanted_streams,
};

/// The most bytes of a failed command's output that are shown.
const LONGEST_ERROR: usize = 64 << 10;

/// What a client asked for that needs a connection of its own.
pub(super) enum Kind<'a> {
    Exec(OfContainer<'a>),
    Attach(OfContainer<'a>),
    PortForward(OfPod<'a>),
}

impl Handler {
    /// A session that the runtime serves; the tunnel begins when the client has the answer.
    pub(super) async fn session(
        &self,
        request: &mut Request<Incoming>,
        kind: Kind<'_>,
        query: &str,
    ) -> Result<(Answer, Option<Tunnel>), Refused> {
        if ![Method::GET, Method::POST].contains(request.method()) {
            return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"));
        }
        let session = match kind {
            Kind::Exec(of) => {
                let wanted = wanted_streams(query).map_err(bad)?;
                let command = command(query);
                if command.is_empty() {
                    return Err(bad("you must specify at least 1 command"));
                }
                let pod = self.pod(of.pod).await?;
                Session::Exec { container: running(&pod, of.container)?, command, wanted }
            }
            Kind::Attach(of) => {
                let mut wanted = wanted_streams(query).map_err(bad)?;
                let pod = self.pod(of.pod).await?;
                let container = running(&pod, of.container)?;
                wanted.tty = pod.container(of.container).is_some_and(|container| container.tty);
                wanted.stderr &= !wanted.tty;
                Session::Attach { container, wanted }
            }
            Kind::PortForward(of) => {
                let ports = crate::http::form(query).into_iter().filter(|(key, _)| key == "port");
                let ports = ports.flat_map(|(_, value)| value.split(',').map(str::parse).collect::<Vec<_>>());
                let ports =
                    ports.collect::<Result<Vec<u16>, _>>().map_err(|_| bad("port must be a number"))?;
                Session::PortForward { uid: self.pod(of).await?.uid, ports }
            }
        };
        // The runtime's URL is only asked for if it will be used.
        let Some(asked) = Asked::of(request) else { return Err(bad("Upgrade request required")) };
        let turn = self.session_turn()?;
        let url = self.streams.url(session).await.map_err(refused)?;
        let failed = |words| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words);
        Ok(match open(&url, asked).await.map_err(failed)? {
            Upgraded::Refused { status, headers, text: words } => {
                let mut answer = text(status, words);
                answer.headers_mut().extend(headers);
                (answer, None)
            }
            Upgraded::Switched { headers, tunnel } => {
                let mut answer = text(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
                *answer.headers_mut() = headers;
                let tunnel: Tunnel = Box::pin(async move {
                    let _turn = turn;
                    tunnel.await;
                });
                (answer, Some(tunnel))
            }
        })
    }

    /// Runs a command, whose parts are separated by spaces, and answers with all that it has written.
    pub(super) async fn run(
        &self,
        method: &Method,
        of: OfContainer<'_>,
        query: &str,
    ) -> Result<Answer, Refused> {
        if *method != Method::POST {
            return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"));
        }
        let wanted = crate::http::form(query).into_iter().find(|(key, _)| key == "cmd");
        let command: Vec<String> =
            wanted.iter().flat_map(|(_, value)| value.split(' ')).map(str::to_owned).collect();
        if command.iter().all(String::is_empty) {
            return Err(bad("you must specify cmd"));
        }
        let pod = self.pod(of.pod).await?;
        let container = running(&pod, of.container)?;
        let turn = self.session_turn()?;
        let RunOutput { mut stdout, stderr, code } =
            self.streams.run(container, command).await.map_err(refused)?;
        stdout.extend(stderr);
        if code != 0 {
            stdout.truncate(LONGEST_ERROR);
            let words =
                format!("command terminated with exit code {code}\n{}", String::from_utf8_lossy(&stdout));
            return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words));
        }
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            // The turn is kept until the client has taken the output, or has gone.
            let _ = sender.send(stdout.into()).await;
            let _ = sender.reserve().await;
            drop(turn);
        });
        Ok(pieces(receiver))
    }

    async fn pod(&self, of: OfPod<'_>) -> Result<ServedPod, Refused> {
        let found = self.find(of.namespace, of.name).await?;
        let found = found.filter(|pod| of.uid.is_none_or(|uid| pod.has_uid(uid)));
        found.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, "pod does not exist"))
    }

    fn session_turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.session_turns).try_acquire_owned().map_err(|_| {
            let words = "too many sessions are open on this node; try again later";
            Refused::new(StatusCode::TOO_MANY_REQUESTS, words)
        })
    }
}

fn bad(words: &'static str) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, words)
}

/// The runtime's ID of the container, if it runs.
fn running(pod: &ServedPod, name: &str) -> Result<String, Refused> {
    let words = || match pod.container(name) {
        Some(_) => format!("container {name:?} is not running"),
        None => format!("container not found ({name:?})"),
    };
    let found = pod.running_id(name).map(str::to_owned);
    found.ok_or_else(|| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words()))
}

fn refused(error: StreamError) -> Refused {
    match error {
        StreamError::NotFound(words) => Refused::new(StatusCode::NOT_FOUND, words),
        StreamError::Exhausted(words) => Refused::new(StatusCode::TOO_MANY_REQUESTS, words),
        StreamError::Failed(words) => Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words),
    }
}
