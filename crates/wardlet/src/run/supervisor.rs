//! The supervisor of the running pods. A task for each pod prints its logs, waits for its end and removes it,
//! without waiting for the other pods.

use std::time::Duration;

use agent::{Admitted, Handle, Orders, PodStatus};
use ids::IdKind;
use report::table;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::desired::Key;
use super::detach::STAYS;
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
        let mut supervisor = Self { pods, due, prints, leaves, tasks, is_shown: false, format };
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
        let is_shown = self.is_shown;
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
        }
        false
    }

    /// Prints a table of all pods, once all of them are up.
    fn show_once_up(&mut self) {
        // Mark each status as seen: `any_changed` would otherwise return at once, again and again.
        let is_up = |pod: &mut Pod| pod.status.borrow_and_update().as_ref().is_some_and(PodStatus::is_up);
        let up = self.pods.iter_mut().map(is_up).filter(|is_up| *is_up).count();
        if self.is_shown || up < self.pods.len() || !self.due.is_empty() {
            return;
        }
        self.is_shown = true;
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
    let source = |container: &str| {
        Source::new(format!("{name}/{container} | "), &handle.logs().join(container), Extent::Growing)
    };
    handle.containers().map(source).collect()
}

async fn any_changed(statuses: &mut [watch::Receiver<Option<PodStatus>>]) {
    let mut each: Vec<_> = statuses.iter_mut().map(|status| Box::pin(status.changed())).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = false;
        each.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(Ok(())) => {
                is_ready = true;
                true
            }
            // The pod's worker has ended after its last status: a closed channel must not be polled again.
            std::task::Poll::Ready(Err(_)) => false,
            std::task::Poll::Pending => true,
        });
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
