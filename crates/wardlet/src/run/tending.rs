//! Pods that run, each seen through to its end by a task of its own: what one leaves is gone when it ends, not
//! when the last of them does.

use std::time::Duration;

use agent::{Handle, Orders, PodStatus};
use ids::IdKind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::detach::STAYS;
use super::follow::{Extent, Source, follow};
use super::view::ids;
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::output::table;
use crate::words;

/// One pod as it is seen from outside.
struct Pod {
    title: String,
    ids: String,
    orders: Orders,
    status: watch::Receiver<Option<PodStatus>>,
    /// How it ended.
    ended: Option<Result<u8, Failure>>,
}

/// All of them.
pub(crate) struct Tending {
    pods: Vec<Pod>,
    tasks: JoinSet<(usize, Result<u8, Failure>)>,
    is_shown: bool,
}

/// What becomes of a pod's output and of what it leaves.
#[derive(Debug, Clone, Copy)]
struct Ways {
    prints: bool,
    removes: bool,
}

impl Tending {
    pub(crate) fn new(handles: Vec<Handle>, args: &RunArgs) -> Self {
        // Words of a process in the background go to a file that is not rotated: pods must not write there.
        let prints = !args.quiet && std::env::var_os(STAYS).is_none();
        let ways = Ways { prints, removes: args.rm };
        let mut tasks = JoinSet::new();
        let pods = handles.iter().map(Pod::of).collect();
        for (index, handle) in handles.into_iter().enumerate() {
            tasks.spawn(async move { (index, seen_through(handle, ways).await) });
        }
        Self { pods, tasks, is_shown: false }
    }

    /// Waits until something has become of one of them. True when nothing is left to wait for.
    pub(crate) async fn next(&mut self) -> bool {
        self.show_once_up();
        let mut statuses: Vec<_> = self.pods.iter().map(|pod| pod.status.clone()).collect();
        let is_shown = self.is_shown;
        tokio::select! {
            ended = self.tasks.join_next() => match ended {
                Some(Ok((index, how))) => {
                    if let Some(pod) = self.pods.get_mut(index) {
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

    /// A table of all pods, when the last is up.
    fn show_once_up(&mut self) {
        // Each is marked as seen, or it would be told again and again.
        let is_up = |pod: &mut Pod| pod.status.borrow_and_update().as_ref().is_some_and(PodStatus::is_up);
        let up = self.pods.iter_mut().map(is_up).filter(|is_up| *is_up).count();
        if self.is_shown || up < self.pods.len() {
            return;
        }
        self.is_shown = true;
        let address = |pod: &Pod| pod.status.borrow().as_ref().map(|s| s.ips.join(",")).unwrap_or_default();
        let row = |pod: &Pod| [pod.title.clone(), pod.ids.clone(), address(pod)];
        let rows: Vec<[String; 3]> = self.pods.iter().map(row).collect();
        table(["POD", "HOST IDS", "ADDRESS"], &rows).lines().for_each(words::line);
    }

    pub(crate) async fn stop(&self, grace: Option<Duration>) {
        for pod in &self.pods {
            pod.orders.stop(grace).await;
        }
    }

    pub(crate) async fn refresh(&self) {
        for pod in &self.pods {
            pod.orders.refresh().await;
        }
    }

    /// Those that have not ended.
    pub(crate) fn titles(&self) -> Vec<&str> {
        self.pods.iter().filter(|pod| pod.ended.is_none()).map(|pod| pod.title.as_str()).collect()
    }

    /// The exit code of the first pod that failed.
    ///
    /// # Errors
    /// If one of them could not be seen through, or something of it is left.
    pub(crate) fn code(self) -> Result<u8, Failure> {
        let mut first = 0;
        for pod in self.pods {
            let broken = || Failure::unknown(format!("{}: looking after it broke off", pod.title));
            let code = pod.ended.unwrap_or_else(|| Err(broken()))?;
            first = if first == 0 { code } else { first };
        }
        Ok(first)
    }
}

impl Pod {
    fn of(handle: &Handle) -> Self {
        Self {
            title: handle.title(),
            ids: ids(&handle.users().lines(IdKind::Uid).unwrap_or_default()),
            orders: handle.orders(),
            status: handle.status(),
            ended: None,
        }
    }
}

/// Prints what a pod prints, waits for its end, and removes what it left. Its exit code.
async fn seen_through(mut handle: Handle, ways: Ways) -> Result<u8, Failure> {
    let (over, until) = watch::channel(false);
    let printer = ways.prints.then(|| tokio::spawn(follow(sources(&handle), until)));
    let ended = handle.ended().await;
    let _ = over.send(true);
    if let Some(printer) = printer {
        let _ = printer.await;
    }
    let code = u8::try_from(ended?.exit_code()).unwrap_or(1);
    if ways.removes
        && let Err(error) = handle.remove().await
    {
        let title = handle.title();
        let failure = Failure::unknown(format!("{title}: not all of it is removed: {error}"));
        return Err(failure.with_hint(format!("`wardlet stop {title}` removes what is left")));
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
            // Whoever told of this pod has ended with its last word said, and must not be asked again.
            std::task::Poll::Ready(Err(_)) => false,
            std::task::Poll::Pending => true,
        });
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
