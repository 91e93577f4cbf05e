//! Exec, attach, port-forward and run.

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use streaming::bridge::Refusal;

use super::answer::{Answer, kept, text};
use super::handler::{Handler, Refused};
use super::kept::Kept;
use super::route::{OfContainer, OfPod};
use super::shown::{JSON, Question};
use crate::pods::ServedPod;
use crate::streams::{
    Asked, RunOutput, Session, StreamError, Tunnel, Upgraded, Way, command, open, wanted_streams,
};

/// The most bytes of a failed command's output that are shown.
const LONGEST_ERROR: usize = 64 << 10;

/// What a client asked for that needs a connection of its own.
pub(super) enum Kind<'a> {
    Exec(OfContainer<'a>),
    Attach(OfContainer<'a>),
    PortForward(OfPod<'a>),
}

impl<'a> Kind<'a> {
    fn pod(&self) -> OfPod<'a> {
        match self {
            Self::Exec(of) | Self::Attach(of) => of.pod,
            Self::PortForward(of) => *of,
        }
    }

    /// The label of metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}

impl Handler {
    /// A session that the runtime serves; the tunnel begins when the client has the answer.
    pub(super) async fn session(
        &self,
        request: &mut Request<Incoming>,
        kind: Kind<'_>,
        question: Question<'_>,
    ) -> (Answer, Option<Tunnel>) {
        let opened = self.opened(request, kind, question).await;
        opened.unwrap_or_else(|refused| (refused.answer(), None))
    }

    async fn opened(
        &self,
        request: &mut Request<Incoming>,
        kind: Kind<'_>,
        question: Question<'_>,
    ) -> Result<(Answer, Option<Tunnel>), Refused> {
        if ![Method::GET, Method::POST].contains(question.method) {
            return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"));
        }
        let (label, pod) = (kind.label(), kind.pod());
        let session = self.wanted(kind, question.query).await?;
        // The runtime's URL is only asked for if it will be used.
        let Some(asked) = Asked::of(request) else { return Err(bad("Upgrade request required")) };
        let way = if self.bridges { asked.way(&session)? } else { Way::AsItIs };
        let place = self.sessions.take_of_pod(question.user, pod.namespace, pod.name)?;
        let url = self.streams.url(session).await.map_err(refused)?;
        if matches!(way, Way::Bridged(_)) {
            self.metrics.websocket(label);
        }
        let failed = |words| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words);
        Ok(match open(&url, asked, way, self.idle).await.map_err(failed)? {
            Upgraded::Refused { status, headers, text: words } => {
                let mut answer = text(status, words);
                answer.headers_mut().extend(headers);
                (answer, None)
            }
            Upgraded::Switched { headers, tunnel } => {
                let mut answer = text(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
                *answer.headers_mut() = headers;
                let tunnel: Tunnel = Box::pin(async move {
                    let _place = place;
                    tunnel.await;
                });
                (answer, Some(tunnel))
            }
        })
    }

    /// What is asked for, in terms of the runtime.
    async fn wanted(&self, kind: Kind<'_>, query: &str) -> Result<Session, Refused> {
        Ok(match kind {
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
        })
    }

    /// Runs a command, whose parts are separated by spaces, and answers with all that it has written: under a kubelet's type,
    /// which is JSON whatever the command writes.
    pub(super) async fn run(&self, of: OfContainer<'_>, question: Question<'_>) -> Result<Answer, Refused> {
        let Question { method, query, user } = question;
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
        let place = self.sessions.take_of_pod(user, of.pod.namespace, of.pod.name)?;
        let RunOutput { mut stdout, stderr, code } =
            self.streams.run(container, command).await.map_err(refused)?;
        stdout.extend(stderr);
        if code != 0 {
            stdout.truncate(LONGEST_ERROR);
            let words =
                format!("command terminated with exit code {code}\n{}", String::from_utf8_lossy(&stdout));
            return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words));
        }
        Ok(kept(JSON, Kept::new(stdout, place, None)))
    }

    async fn pod(&self, of: OfPod<'_>) -> Result<ServedPod, Refused> {
        let found = self.find(of.namespace, of.name).await?;
        let found = found.filter(|pod| of.uid.is_none_or(|uid| pod.has_uid(uid)));
        found.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, "pod does not exist"))
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

impl From<Box<Refusal>> for Refused {
    fn from(refusal: Box<Refusal>) -> Self {
        let Refusal { status, headers, cause } = *refusal;
        Self::new(status, cause).offering(headers)
    }
}

fn refused(error: StreamError) -> Refused {
    match error {
        StreamError::NotFound(words) => Refused::new(StatusCode::NOT_FOUND, words),
        StreamError::Exhausted(words) => Refused::new(StatusCode::TOO_MANY_REQUESTS, words),
        StreamError::Failed(words) => Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words),
    }
}
