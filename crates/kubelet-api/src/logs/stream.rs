//! A log as the body of an answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::logs::{InstanceLog, Reader};
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use super::format::Format;
use super::is_running;
use super::query::LogQuery;
use crate::http::Place;
use crate::pods::Pods;

/// How long until a log that is followed is read again; it doubles while nothing is written.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often it is asked whether the container still runs.
const STATE: Duration = Duration::from_secs(1);
/// Pieces that wait for the client.
const WAITING: usize = 2;

/// The log of one instance of a container.
pub(crate) struct LogRequest {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) attempt: u32,
    pub(crate) query: LogQuery,
}

impl LogRequest {
    fn title(&self) -> String {
        format!("container {} of pod {}/{}", self.container, self.namespace, self.pod)
    }
}

/// Opens a log, and sends it by a task that ends with the client, or with the log. `logs` is the pod's directory.
///
/// # Errors
/// If the log cannot be read.
pub(crate) async fn open(
    request: LogRequest,
    logs: std::path::PathBuf,
    pods: Arc<dyn Pods>,
    place: Place,
) -> io::Result<mpsc::Receiver<Bytes>> {
    let wanted = InstanceLog {
        attempt: request.attempt,
        last_lines: request.query.tail_lines,
        follow: request.query.follow,
    };
    let dir = logs.join(&request.container);
    let reader = blocking(move || Reader::of_instance(&dir, wanted)).await??;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        // Until the log is sent.
        let _place = place;
        let title = request.title();
        if let Err(error) = (Sending { request, pods, sender }).run(reader).await {
            warn!("the log of {title} cannot be read on: {error}");
        }
    });
    Ok(receiver)
}

struct Sending {
    request: LogRequest,
    pods: Arc<dyn Pods>,
    sender: mpsc::Sender<Bytes>,
}

impl Sending {
    async fn run(&self, mut reader: Reader) -> io::Result<()> {
        let mut format = Format::new(self.request.query);
        let mut has_ended = !self.request.query.follow;
        let mut asked = Instant::now();
        let mut pause = PAUSE;
        loop {
            // Also while all lines are filtered out, so that nothing is sent.
            if self.sender.is_closed() {
                return Ok(());
            }
            let read = blocking(move || {
                let lines = reader.read();
                (reader, lines)
            });
            let lines;
            (reader, lines) = read.await?;
            let lines = lines?;
            let mut text = Vec::new();
            lines.iter().for_each(|line| format.write(line, &mut text));
            if !text.is_empty() && self.sender.send(text.into()).await.is_err() {
                return Ok(());
            }
            if format.is_done() {
                return Ok(());
            }
            if !lines.is_empty() {
                pause = PAUSE;
                continue;
            }
            // Asked before the last read: what the container wrote last is not missed.
            if has_ended {
                return Ok(());
            }
            tokio::select! {
                () = self.sender.closed() => return Ok(()),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
            if asked.elapsed() >= STATE {
                has_ended = !self.is_running().await?;
                asked = Instant::now();
            }
        }
    }

    async fn is_running(&self) -> io::Result<bool> {
        let LogRequest { namespace, pod, container, attempt, .. } = &self.request;
        let (pods, namespace, pod) = (Arc::clone(&self.pods), namespace.clone(), pod.clone());
        let found = blocking(move || pods.find(&namespace, &pod)).await?;
        Ok(found.is_some_and(|found| is_running(&found, container, *attempt)))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
