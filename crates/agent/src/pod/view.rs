//! The pods that this process runs, as a caller sees them.

use ids::UserNamespace;
use plan::Plan;
use types::PodUid;

use crate::pod::running::Running;
use crate::pod::start_steps::StartTimes;
use crate::status::view::PodStatus;

/// A pod that this process runs, as it is now.
#[derive(Debug, Clone)]
pub struct RunningPod {
    /// Its UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The runtime handler; empty for the default.
    pub handler: String,
    /// Its host IDs.
    pub users: UserNamespace,
    /// The SELinux level that was leased with its block.
    pub level: Option<String>,
    /// The plan that it runs by; `None` for a pod that is only stopped.
    pub plan: Option<Plan>,
    /// Its last status; `None` until the first one is known.
    pub status: Option<PodStatus>,
    /// How its start went; `None` if an earlier process started it.
    pub start: Option<StartTimes>,
}

impl RunningPod {
    pub(crate) fn of(running: &Running) -> Self {
        let context = running.context.borrow().clone();
        Self {
            uid: context.uid.clone(),
            namespace: context.namespace.clone(),
            name: context.name.clone(),
            handler: context.handler.clone(),
            users: context.users.clone(),
            level: context.level.clone(),
            plan: context.plan.clone(),
            status: running.status.borrow().clone(),
            start: running.steps.times(),
        }
    }
}
