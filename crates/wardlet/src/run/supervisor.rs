//! The supervisor of the running pods. A task for each pod prints its logs, waits for its end and removes it,
//! without waiting for the other pods.

use std::time::{Duration, Instant};

use agent::{Admitted, Handle, Key, Orders, PodStatus, StartReport, StartWatch, Startup, any_changed};
use ids::IdKind;
use report::table;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::detach::{self, STAYS};
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::log::{self, LogFormat};
use report::logs::{Extent, Source, follow};
use report::pods::ids;

/// A supervised pod.
struct Pod {
    key: Key,
    title: String,
    ids: String,
    grace: Duration,
    orders: Orders,
    status: watch::Receiver<Option<PodStatus>>,
    /// What is kept at its end, for its task.
    leaves: watch::Sender<Leaves>,
    /// The pod that is started after its end.
    successor: Option<Box<Admitted>>,
    /// Whether it is stopped because the manifests changed: its exit code is ignored then.
    is_dropped: bool,
    /// Its exit code, or why its task failed; `None` while the task runs.
    ended: Option<Result<u8, Failure>>,
}

/// What is kept of a pod at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// Nothing but its images.
    Nothing,
    /// Its record, status and logs.
    Records,
}

/// Supervises all pods of a run.
pub(crate) struct PodSupervisor {
    pods: Vec<Pod>,
    /// Successors of pods that have ended.
    due: Vec<Admitted>,
    prints: bool,
    leaves: Leaves,
    tasks: JoinSet<(usize, Result<u8, Failure>)>,
    start: StartWatch,
    is_shown: bool,
    format: LogFormat,
}

impl PodSupervisor {
    pub(crate) fn new(handles: Vec<Handle>, args: &RunArgs) -> Self {
        // A process in the background has its stderr in a file that is not rotated: output of pods would fill
        // the disk.
        let prints = !args.quiet && std::env::var_os(STAYS).is_none();
        let leaves = if args.rm { Leaves::Nothing } else { Leaves::Records };
        let (tasks, format) = (JoinSet::new(), args.log.log_format);
        let (pods, due) = (Vec::new(), Vec::new());
        let start = StartWatch::default();
        let mut supervisor = Self { pods, due, prints, leaves, tasks, start, is_shown: false, format };
        handles.into_iter().for_each(|handle| supervisor.add(handle));
        supervisor
    }

    /// Adds a pod, and spawns its task.
    pub(crate) fn add(&mut self, handle: Handle) {
        let (leaves, at_end) = watch::channel(self.leaves);
        let (index, prints) = (self.pods.len(), self.prints);
        self.pods.push(Pod::of(&handle, leaves));
        self.tasks.spawn(async move { (index, seen_through(handle, prints, at_end).await) });
    }

    /// Marks the pod of this name as removed from the manifests. The agent stops it.
    pub(crate) fn dropped(&mut self, key: &Key) {
        self.living(key).for_each(|pod| {
            (pod.is_dropped, pod.successor) = (true, None);
        });
    }

    /// Sets the successor of the pod of this name, which the agent stops. `false` if there is no such pod.
    pub(crate) fn replaced(&mut self, key: &Key, successor: Box<Admitted>) -> bool {
        let Some(pod) = self.living(key).last() else { return false };
        (pod.is_dropped, pod.successor) = (true, Some(successor));
        pod.leaves.send_replace(Leaves::Nothing);
        true
    }

    /// Whether the pod of this name is being stopped because the manifests changed: a new definition must
    /// wait for its end.
    pub(crate) fn is_ending(&mut self, key: &Key) -> bool {
        self.living(key).any(|pod| pod.is_dropped)
    }

    /// The pods of this name whose task has not ended.
    fn living(&mut self, key: &Key) -> impl Iterator<Item = &mut Pod> {
        self.pods.iter_mut().filter(move |pod| pod.key == *key && pod.ended.is_none())
    }

    /// The successors whose predecessors are removed now.
    pub(crate) fn take_due(&mut self) -> Vec<Admitted> {
        std::mem::take(&mut self.due)
    }

    /// Waits until a pod has ended or its status has changed. True when all pods have ended.
    pub(crate) async fn next(&mut self) -> bool {
        self.show_once_up();
        let mut statuses: Vec<_> = self.pods.iter().map(|pod| pod.status.clone()).collect();
        let (is_shown, wait) = (self.is_shown, self.start.wait(Instant::now()));
        tokio::select! {
            ended = self.tasks.join_next() => match ended {
                Some(Ok((index, how))) => {
                    if let Some(pod) = self.pods.get_mut(index) {
                        let successor = pod.successor.take().filter(|_| how.is_ok());
                        self.due.extend(successor.map(|pod| *pod));
                        pod.ended = Some(how);
                    }
                }
                Some(Err(_)) => {}
                None => {
                    self.show_once_up();
                    return true;
                }
            },
            () = any_changed(&mut statuses), if !is_shown => {}
            () = tokio::time::sleep(wait.unwrap_or_default()), if !is_shown && wait.is_some() => {}
        }
        false
    }

    /// Prints a table of all pods, once all of them have been started. A process in the background reports how the
    /// start came out, also if a pod does not start.
    fn show_once_up(&mut self) {
        // Mark each status as seen: `any_changed` would otherwise return at once, again and again.
        let start = |pod: &mut Pod| {
            pod.status.borrow_and_update().as_ref().map_or(Startup::Pending, PodStatus::startup)
        };
        let starts: Vec<Startup> = self.pods.iter_mut().map(start).collect();
        if self.is_shown || !self.due.is_empty() {
            return;
        }
        let pods: Vec<_> = self.pods.iter().map(|pod| pod.title.as_str()).zip(starts).collect();
        let Some(report) = self.start.report(&pods, Instant::now()) else { return };
        let is_detached = std::env::var_os(STAYS).is_some();
        self.is_shown = is_detached || !matches!(report, StartReport::Stuck { .. });
        if is_detached {
            return detach::report(&report);
        }
        if !self.is_shown {
            return;
        }
        let address = |pod: &Pod| pod.status.borrow().as_ref().map(|s| s.ips.join(",")).unwrap_or_default();
        let row = |pod: &Pod| [pod.title.clone(), pod.ids.clone(), address(pod)];
        let rows: Vec<[String; 3]> = self.pods.iter().map(row).collect();
        match self.format {
            LogFormat::Text => table(["POD", "HOST IDS", "ADDRESS"], &rows).lines().for_each(log::write_line),
            LogFormat::Json => {
                for [pod, ids, address] in rows {
                    info!(pod, ids, address, "{pod} is up");
                }
            }
        }
    }

    pub(crate) async fn stop(&mut self, grace: Option<Duration>) {
        // A start that is given up has no outcome to show.
        self.is_shown = true;
        self.due.clear();
        for pod in &mut self.pods {
            pod.successor = None;
            pod.orders.stop(grace).await;
        }
    }

    /// The pods that have not ended.
    pub(crate) fn titles(&self) -> Vec<&str> {
        self.pods.iter().filter(|pod| pod.ended.is_none()).map(|pod| pod.title.as_str()).collect()
    }

    /// The pods that have not ended, and how long each may take to end.
    pub(crate) fn graces(&self) -> String {
        let left = self.pods.iter().filter(|pod| pod.ended.is_none());
        let each: Vec<_> =
            left.map(|pod| format!("{} within {} s", pod.title, pod.grace.as_secs())).collect();
        each.join(", ")
    }

    /// The exit code of the first pod that failed.
    ///
    /// # Errors
    /// If a pod's task failed, or a pod could not be removed completely.
    pub(crate) fn code(self) -> Result<u8, Failure> {
        let mut first = 0;
        for pod in self.pods {
            let broken = || Failure::unknown(format!("pod {}: its supervisor task panicked", pod.title));
            let code = pod.ended.unwrap_or_else(|| Err(broken()))?;
            first = if first == 0 && !pod.is_dropped { code } else { first };
        }
        Ok(first)
    }
}

impl Pod {
    fn of(handle: &Handle, leaves: watch::Sender<Leaves>) -> Self {
        Self {
            key: (handle.namespace().to_owned(), handle.name().to_owned()),
            leaves,
            successor: None,
            is_dropped: false,
            title: handle.title(),
            ids: ids(&handle.users().lines(IdKind::Uid).unwrap_or_default()),
            grace: handle.grace(),
            orders: handle.orders(),
            status: handle.status(),
            ended: None,
        }
    }
}

/// Prints the logs of a pod, waits for its end, and removes it. Returns its exit code.
async fn seen_through(
    mut handle: Handle,
    prints: bool,
    at_end: watch::Receiver<Leaves>,
) -> Result<u8, Failure> {
    let (over, until) = watch::channel(false);
    let printer = prints.then(|| tokio::spawn(follow(sources(&handle), until)));
    let ended = handle.ended().await;
    let _ = over.send(true);
    if let Some(printer) = printer {
        let _ = printer.await;
    }
    let code = u8::try_from(ended?.exit_code()).unwrap_or(1);
    let leaves = *at_end.borrow();
    if leaves == Leaves::Nothing
        && let Err(error) = handle.remove().await
    {
        let title = handle.title();
        let failure = Failure::unknown(format!("cannot remove pod {title} completely: {error}"));
        return Err(failure.with_hint(format!("`wardlet stop {title}` removes the rest")));
    }
    Ok(code)
}

fn sources(handle: &Handle) -> Vec<Source> {
    let name = handle.name();
    // Of an adopted pod, `wardlet logs` prints what it has written before.
    let extent = if handle.is_adopted() { Extent::FromNow } else { Extent::Growing };
    let source = |container: &str| {
        Source::new(format!("{name}/{container} | "), &handle.logs().join(container), extent)
    };
    handle.containers().map(source).collect()
}
