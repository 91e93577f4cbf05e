//! Pods from their start to their end.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use agent::{Admitted, Agent, Event, EventKind, Handle, Objects, Options, PodStatus};
use ids::IdKind;
use kernel::Live;
use manifest::Reading;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::follow::{Source, follow};
use super::runtime::Connected;
use super::view::ids;
use crate::cli::RunArgs;
use crate::explain::input;
use crate::failure::Failure;
use crate::node::Node;
use crate::output::table;
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
}

impl Run<'_> {
    /// An agent on this runtime.
    pub(crate) fn agent(&self) -> Result<Agent, Failure> {
        let pins = self.args.run_dir.join("userns");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&pins);
        made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", pins.display())))?;
        let options = Options {
            state: self.node.state_dir().to_owned(),
            client: self.runtime.client.clone(),
            endpoint: self.runtime.endpoint.to_string(),
            ledger: Arc::new(self.node.ledger()?),
            kernel: Arc::new(Live::pinning_in(&pins)),
            objects: self.objects.clone(),
            settings: lifecycle_settings(),
            node: host_name(),
            host_ip: host_ip(),
            tell: Arc::new(tell),
            journal: self.args.calls.as_deref().map(journal).transpose()?,
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
                    end_all(&mut handles, self.args).await;
                    return Err(error.into());
                }
            }
        }
        let ended = self.until_ended(&mut handles, &mut signals).await;
        let removed = if self.args.rm { remove(&mut handles).await } else { Ok(()) };
        let (code, is_interrupted) = ended?;
        removed?;
        Ok(ExitCode::from(if is_interrupted { INTERRUPTED } else { code }))
    }

    async fn until_ended(
        &self,
        handles: &mut [Handle],
        signals: &mut Signals,
    ) -> Result<(u8, bool), Failure> {
        let (over, until) = watch::channel(false);
        let printer = (!self.args.quiet).then(|| tokio::spawn(follow(sources(handles), until)));
        let mut statuses: Vec<watch::Receiver<Option<PodStatus>>> =
            handles.iter().map(Handle::status).collect();
        let up = Mutex::new(false);
        let mut asked = 0;
        let mut files = Files::of(&self.args.files);
        loop {
            let all: Vec<Option<PodStatus>> =
                statuses.iter_mut().map(|s| s.borrow_and_update().clone()).collect();
            if all.iter().all(|s| s.as_ref().is_some_and(PodStatus::is_up)) && !is_set(&up) {
                say_table(handles, &all);
            }
            if all.iter().all(|s| s.as_ref().is_some_and(PodStatus::is_terminated)) {
                break;
            }
            tokio::select! {
                () = any_changed(&mut statuses) => {}
                () = signals.next() => {
                    asked += 1;
                    say_ending(asked);
                    let grace = (asked > 1).then_some(Duration::ZERO);
                    for handle in handles.iter() {
                        handle.stop(grace).await;
                    }
                }
                () = tokio::time::sleep(LOOK) => if files.have_changed() {
                    self.reload(handles).await;
                },
            }
        }
        let mut code = 0;
        for handle in handles.iter_mut() {
            let status = handle.ended().await?;
            let own = u8::try_from(status.exit_code()).unwrap_or(1);
            code = if code == 0 { own } else { code };
        }
        let _ = over.send(true);
        if let Some(printer) = printer {
            let _ = printer.await;
        }
        Ok((code, asked > 0))
    }

    /// ConfigMaps and Secrets as the files have them now; pods stay as they are.
    async fn reload(&self, handles: &[Handle]) {
        let read = input::read(&self.args.files);
        let reading = match read {
            Ok(reading) if reading.findings.is_empty() => reading,
            Ok(Reading { findings, .. }) => return input::say(&findings),
            Err(failure) => return words::failure(&failure),
        };
        self.objects.replace(&reading.objects);
        for handle in handles {
            handle.refresh().await;
        }
    }
}

/// Whether it was set before; it is after.
fn is_set(flag: &Mutex<bool>) -> bool {
    flag.lock().map(|mut flag| std::mem::replace(&mut *flag, true)).unwrap_or(true)
}

async fn any_changed(statuses: &mut [watch::Receiver<Option<PodStatus>>]) {
    let each = statuses.iter_mut().map(|status| Box::pin(status.changed()));
    let mut each: Vec<_> = each.collect();
    std::future::poll_fn(|context| {
        let mut is_ready = false;
        each.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(Ok(())) => {
                is_ready = true;
                true
            }
            // Whoever told of this pod has ended with its last word said, and must not be asked again.
            std::task::Poll::Ready(Err(_)) => false,
            std::task::Poll::Pending => true,
        });
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

fn say_ending(asked: u32) {
    words::say(match asked {
        1 => "ending all pods; once more to hurry",
        _ => "hurrying",
    });
}

fn sources(handles: &[Handle]) -> Vec<Source> {
    let of = |handle: &Handle| -> Vec<Source> {
        let name = handle.name().to_owned();
        let source =
            |container: &str| Source::new(format!("{name}/{container} | "), &handle.logs().join(container));
        handle.containers().map(source).collect()
    };
    handles.iter().flat_map(of).collect()
}

fn say_table(handles: &[Handle], statuses: &[Option<PodStatus>]) {
    let rows: Vec<[String; 3]> = handles
        .iter()
        .zip(statuses)
        .map(|(handle, status)| {
            let lines = handle.users().lines(IdKind::Uid).unwrap_or_default();
            let address = status.as_ref().map(|s| s.ips.join(",")).unwrap_or_default();
            [handle.title(), ids(&lines), address]
        })
        .collect();
    table(["POD", "HOST IDS", "ADDRESS"], &rows).lines().for_each(words::line);
}

async fn end_all(handles: &mut [Handle], args: &RunArgs) {
    for handle in handles.iter() {
        handle.stop(None).await;
    }
    let ended = async {
        for handle in handles.iter_mut() {
            handle.ended().await?;
        }
        Ok::<(), agent::Error>(())
    };
    let removed = match ended.await {
        Ok(()) if args.rm => remove(handles).await,
        ended => ended.map_err(Failure::from),
    };
    if let Err(failure) = removed {
        words::failure(&failure);
    }
}

async fn remove(handles: &mut [Handle]) -> Result<(), Failure> {
    let mut failed = None;
    for handle in handles {
        if let Err(error) = handle.remove().await {
            words::warning(&format!("{}: {error}", handle.title()));
            failed = Some(Failure::from(error).with_hint("`wardlet stop` removes what is left"));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn tell(event: &Event) {
    let text = format!("{}: {}", event.pod, event.text);
    match event.kind {
        EventKind::Normal => words::say(&text),
        EventKind::Warning => words::warning(&text),
    }
}

/// Writes every call that makes something, one line of JSON each.
fn journal(file: &Path) -> Result<agent::Journal, Failure> {
    let failed = |e: std::io::Error| Failure::unknown(format!("cannot write {}: {e}", file.display()));
    let out = Mutex::new(std::fs::File::create(file).map_err(failed)?);
    Ok(Arc::new(move |call| {
        use std::io::Write;
        let line = serde_json::to_string(call).unwrap_or_default();
        if let Ok(mut out) = out.lock() {
            let _ = writeln!(out, "{line}");
        }
    }))
}

fn lifecycle_settings() -> agent::Settings {
    agent::Settings::default()
}

fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_lowercase()
}

/// The address that the node would be seen with from outside. Nothing is sent.
fn host_ip() -> String {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0));
    let found = socket.and_then(|s| s.connect(("192.0.2.1", 9)).and_then(|()| s.local_addr()));
    found.map_or_else(|_| NOBODY.to_owned(), |address| address.ip().to_string())
}

/// When the manifests were last written.
struct Files {
    names: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Option<SystemTime>>,
}

impl Files {
    fn of(names: &[PathBuf]) -> Self {
        let names: Vec<PathBuf> = names.iter().filter(|name| *name != Path::new("-")).cloned().collect();
        let seen = times(&names);
        Self { names, seen }
    }

    /// Whether any was written, added or removed since the last question.
    fn have_changed(&mut self) -> bool {
        let now = times(&self.names);
        std::mem::replace(&mut self.seen, now.clone()) != now
    }
}

fn times(names: &[PathBuf]) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let below = |name: &PathBuf| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(name).into_iter().flatten().flatten().map(|e| e.path());
        entries.chain([name.clone()]).collect()
    };
    let time = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    names.iter().flat_map(below).map(|path| (path.clone(), time(&path))).collect()
}

/// Ctrl-C and its like.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::unknown(format!("cannot catch signals: {e}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
