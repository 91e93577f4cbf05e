//! Pods from their start to their end.

use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::{Admitted, Agent, Event, EventKind, Handle, LogRotation, Objects, Options};
use kernel::{Live, Recorder};
use ledger::Ledger;
use manifest::Reading;

use super::calls::Calls;
use super::changes::Files;
use super::runtime::Connected;
use super::signals::Signals;
use super::tending::Tending;
use crate::cli::RunArgs;
use crate::explain::input;
use crate::failure::Failure;
use crate::node::Node;
use crate::words;

/// How often the manifests are looked at for other ConfigMaps and Secrets.
const LOOK: Duration = Duration::from_secs(1);
/// What a process that was interrupted ends with.
const INTERRUPTED: u8 = 130;
const NOBODY: &str = "127.0.0.1";

/// What it takes to run pods.
pub(crate) struct Run<'a> {
    pub(crate) node: &'a Node,
    pub(crate) args: &'a RunArgs,
    pub(crate) runtime: &'a Connected,
    pub(crate) objects: Objects,
    pub(crate) ledger: Arc<Ledger>,
}

impl Run<'_> {
    /// An agent on this runtime.
    pub(crate) fn agent(&self) -> Result<Agent, Failure> {
        let pins = self.args.run_dir.join("userns");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&pins);
        made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", pins.display())))?;
        let calls = self.args.calls.as_deref().map(Calls::create).transpose()?;
        let live = Live::pinning_in(&pins);
        let options = Options {
            state: self.node.state_dir().to_owned(),
            client: self.runtime.client.clone(),
            endpoint: self.runtime.endpoint.to_string(),
            ledger: Arc::clone(&self.ledger),
            kernel: match &calls {
                Some(calls) => Arc::new(Recorder::telling(live, calls.of_kernel())),
                None => Arc::new(live),
            },
            objects: self.objects.clone(),
            settings: agent::Settings::default(),
            logs: LogRotation {
                max_size: self.args.container_log_max_size,
                max_files: self.args.container_log_max_files,
            },
            node: host_name(),
            host_ip: host_ip(),
            tell: Arc::new(tell),
            journal: calls.map(Calls::of_runtime),
        };
        Ok(Agent::open(options)?)
    }

    /// Until all pods have ended; the answer is the exit code of the first that failed.
    pub(crate) async fn all(&self, pods: Vec<Admitted>) -> Result<ExitCode, Failure> {
        let mut signals = Signals::catch()?;
        let agent = self.agent()?;
        let mut handles = Vec::new();
        for pod in pods {
            match agent.start(pod).await {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    end_all(handles, self.args).await;
                    return Err(error.into());
                }
            }
        }
        self.until_ended(Tending::new(handles, self.args), &mut signals).await
    }

    async fn until_ended(&self, mut tending: Tending, signals: &mut Signals) -> Result<ExitCode, Failure> {
        let mut asked = 0;
        let mut files = Files::of(&self.args.files);
        loop {
            tokio::select! {
                is_over = tending.next() => if is_over {
                    break;
                },
                () = signals.next() => {
                    asked += 1;
                    say_ending(asked);
                    if asked > 2 {
                        return Err(left(&tending));
                    }
                    tending.stop((asked > 1).then_some(Duration::ZERO)).await;
                }
                () = tokio::time::sleep(LOOK) => if files.have_changed() {
                    self.reload(&tending).await;
                },
            }
        }
        let code = tending.code()?;
        Ok(ExitCode::from(if asked > 0 { INTERRUPTED } else { code }))
    }

    /// ConfigMaps and Secrets as the files have them now; pods stay as they are.
    async fn reload(&self, tending: &Tending) {
        let read = input::read(&self.args.files);
        let reading = match read {
            Ok(reading) if reading.findings.is_empty() => reading,
            Ok(Reading { findings, .. }) => return input::say(&findings),
            Err(failure) => return words::failure(&failure),
        };
        self.objects.replace(&reading.objects);
        tending.refresh().await;
    }
}

fn say_ending(asked: u32) {
    words::say(match asked {
        1 => "ending all pods; once more to hurry",
        2 => "hurrying; once more to leave them as they are",
        _ => "leaving",
    });
}

fn left(tending: &Tending) -> Failure {
    let still = tending.titles().join(", ");
    Failure::unknown(format!("left as they are: {still}")).with_hint("`wardlet stop` ends them")
}

async fn end_all(handles: Vec<Handle>, args: &RunArgs) {
    let mut tending = Tending::new(handles, args);
    tending.stop(None).await;
    while !tending.next().await {}
    if let Err(failure) = tending.code() {
        words::failure(&failure);
    }
}

fn tell(event: &Event) {
    let text = format!("{}: {}", event.pod, event.text);
    match event.kind {
        EventKind::Normal => words::say(&text),
        EventKind::Warning => words::warning(&text),
    }
}

/// What the node is called.
pub(crate) fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_lowercase()
}

/// The address that the node would be seen with from outside. Nothing is sent.
fn host_ip() -> String {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0));
    let found = socket.and_then(|s| s.connect(("192.0.2.1", 9)).and_then(|()| s.local_addr()));
    found.map_or_else(|_| NOBODY.to_owned(), |address| address.ip().to_string())
}
