//! One pod, looked after from its first step to its last.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Action, Deletion, Moment, Observed, Outcome, Pod, Stage, State, Task, step};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinSet};

use crate::chores::{Chores, now};
use crate::logs::Running;
use crate::look::{Look, Looker};
use crate::mounts::wanted;
use crate::requests::Watch;
use crate::shared::blocking;
use crate::status::PodStatus;
use crate::store::StopRequest;
use crate::tended::Tended;

/// How often a pod is looked at though nobody said that anything happened: repairs what was missed.
const RELIST: Duration = Duration::from_secs(10);
/// The same with a runtime that tells nothing.
const RELIST_UNTOLD: Duration = Duration::from_secs(1);
/// How long a runtime that does not answer is left alone.
const UNANSWERED: Duration = Duration::from_secs(1);

/// What a worker is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// The pod is to end.
    Stop(Option<Duration>),
    /// The objects that it names may be others now.
    Refresh,
}

pub(crate) struct Worker {
    pub(crate) chores: Chores,
    pub(crate) pod: Pod,
    pub(crate) state: State,
    pub(crate) looker: Looker,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) status: watch::Sender<Option<PodStatus>>,
    pub(crate) bell: Arc<Notify>,
    pub(crate) watch: Option<Watch>,
    /// Nobody else looks after the pod meanwhile.
    pub(crate) tended: Tended,
    /// Whether the runtime answered when it was last asked.
    pub(crate) answers: Answers,
    /// Tells those at work that nothing more is to be started.
    pub(crate) ending: watch::Sender<bool>,
    /// Tells which containers write logs.
    pub(crate) writing: watch::Sender<Vec<Running>>,
}

/// Whether the runtime answers; said once each time that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Answers {
    #[default]
    Yes,
    No,
}

#[derive(Default)]
struct UnderWay {
    running: JoinSet<Option<Outcome>>,
    tasks: HashMap<Id, Task>,
}

impl UnderWay {
    fn tasks(&self) -> BTreeSet<Task> {
        self.tasks.values().cloned().collect()
    }

    /// The next that ends; for ever if there is none.
    async fn next(&mut self) -> Option<Outcome> {
        match self.running.join_next_with_id().await {
            Some(Ok((id, outcome))) => {
                self.tasks.remove(&id);
                outcome
            }
            // It is no longer under way, and what it did not do is ordered again.
            Some(Err(broken)) => {
                self.tasks.remove(&broken.id());
                None
            }
            None => std::future::pending().await,
        }
    }
}

impl Worker {
    /// Until nothing of the pod runs and nothing will.
    pub(crate) async fn run(mut self) -> (PodStatus, Tended) {
        let mut under_way = UnderWay::default();
        let mut outcomes = Vec::new();
        self.hear_requests();
        loop {
            let tasks = under_way.tasks();
            let Ok(look) = self.look().await else {
                let again = now().after(UNANSWERED);
                outcomes.extend(self.wait(Some(again), &mut under_way).await);
                continue;
            };
            let look = Arc::new(look);
            self.writing.send_if_modified(|known| {
                let running = look.running();
                let is_other = *known != running;
                *known = running;
                is_other
            });
            let observed = observed(&look, tasks, std::mem::take(&mut outcomes));
            let (actions, status) = step(&self.pod, &observed, &mut self.state, now());
            let ips = look.current().map(|sandbox| self.chores.addresses(sandbox));
            let ips =
                ips.unwrap_or_else(|| self.status.borrow().iter().flat_map(|s| s.ips.clone()).collect());
            self.ending.send_replace(status.stage != Stage::Syncing);
            let is_over = status.stage == Stage::Terminated && under_way.tasks.is_empty();
            let status = PodStatus::new(&status, ips);
            if is_over {
                self.publish(&status).await;
                return (status, self.tended);
            }
            // What was ordered is under way while the disk is waited for.
            let wake = self.order(actions, &look, &mut under_way);
            self.publish(&status).await;
            outcomes.extend(self.wait(wake, &mut under_way).await);
        }
    }

    async fn look(&mut self) -> crate::Result<Look> {
        let looked = self.looker.look(&self.chores.shared.cri).await;
        let answers = if looked.is_ok() { Answers::Yes } else { Answers::No };
        if answers != self.answers {
            let title = self.chores.ward.title();
            match &looked {
                Ok(_) => self.chores.shared.say(&title, "the runtime answers again"),
                Err(error) => self.chores.shared.warn(&title, format!("cannot be looked at: {error}")),
            }
        }
        self.answers = answers;
        looked
    }

    async fn publish(&self, status: &PodStatus) {
        if self.status.borrow().as_ref() == Some(status) {
            return;
        }
        let (place, written) = (self.chores.place.clone(), status.clone());
        let done = blocking("writing a status", move || place.write_status(&written)).await;
        if let Err(error) = done {
            self.chores.shared.warn(&self.chores.ward.title(), error.to_string());
        }
        self.status.send_replace(Some(status.clone()));
    }

    /// Begins what was ordered; tells when to ask again.
    fn order(&self, actions: Vec<Action>, look: &Arc<Look>, under_way: &mut UnderWay) -> Option<Moment> {
        let mut wake = None;
        for action in actions {
            match (&action, action.task()) {
                (Action::Wake { at }, _) => wake = Some(*at),
                (_, None) => {}
                (_, Some(task)) => {
                    let chore = self.chores.clone().carry_out(action, Arc::clone(look));
                    let handle = under_way.running.spawn(chore);
                    under_way.tasks.insert(handle.id(), task);
                }
            }
        }
        wake
    }

    /// Until there is a reason to look again. Outcomes are taken before the next look: what a task did is
    /// then in the runtime's lists.
    async fn wait(&mut self, wake: Option<Moment>, under_way: &mut UnderWay) -> Option<Outcome> {
        let relist = if self.chores.shared.bells.is_told() { RELIST } else { RELIST_UNTOLD };
        let until = wake.map_or(relist, |at| at.since(now()).min(relist));
        let bell = Arc::clone(&self.bell);
        let deadline = tokio::time::sleep(until);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                outcome = under_way.next() => return outcome,
                () = bell.notified() => return None,
                () = &mut deadline => return None,
                order = self.orders.recv(), if !self.orders.is_closed() => match order {
                    Some(Order::Stop(grace)) => {
                        self.note_end(grace).await;
                        self.delete(grace);
                        return None;
                    }
                    Some(Order::Refresh) => self.refresh().await,
                    None => {}
                },
                () = changed(self.watch.as_ref()) => if self.hear_requests() {
                    return None;
                },
            }
        }
    }

    /// On disk first: whoever comes after us must not take the pod for one that goes on.
    async fn note_end(&self, grace: Option<Duration>) {
        let place = self.chores.place.clone();
        let request = StopRequest { grace: grace.map(|grace| grace.as_secs()) };
        let done = blocking("writing a request", move || place.write_stop(&request)).await;
        if let Err(error) = done {
            self.chores.shared.warn(&self.chores.ward.title(), error.to_string());
        }
    }

    fn delete(&mut self, grace: Option<Duration>) {
        self.pod = self.pod.clone().deleted(Deletion { grace });
    }

    /// Whether somebody wants the pod to end.
    fn hear_requests(&mut self) -> bool {
        let Some(request) = self.chores.place.stop_request() else { return false };
        self.delete(request.grace.map(Duration::from_secs));
        true
    }

    /// Files that the node writes for the pod are written anew.
    async fn refresh(&self) {
        let Chores { shared, ward, .. } = self.chores.clone();
        let title = ward.title();
        let teller = Arc::clone(&shared);
        let done = blocking("writing a pod's files", move || {
            let wanted = wanted(&ward, &shared.objects)?;
            if wanted.volumes.is_empty() {
                return Ok(Vec::new());
            }
            Ok(shared.volumes.update(&wanted)?)
        });
        match done.await {
            Ok(written) => {
                let changed = written.into_iter().filter(|(_, w)| *w != volumes::writer::Written::Nothing);
                changed.for_each(|(volume, _)| teller.say(&title, format!("volume {volume} updated")));
            }
            Err(error) => teller.warn(&title, error.to_string()),
        }
    }
}

async fn changed(watch: Option<&Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn observed(look: &Look, under_way: BTreeSet<Task>, outcomes: Vec<Outcome>) -> Observed {
    Observed {
        under_way,
        sandboxes: look.sandboxes.iter().map(|s| s.seen).collect(),
        instances: look.containers.iter().map(|c| c.seen.clone()).collect(),
        outcomes,
        conditions: std::collections::BTreeMap::new(),
    }
}
