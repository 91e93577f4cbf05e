//! Decides what to do next for a pod, from its observed state and the time.
//!
//! [`step`]`(`[`Pod`]`, `[`Observed`]`, `[`State`]`, `[`Moment`]`)` returns [`Action`]s and a [`Status`]. It does
//! nothing itself: no I/O, no clock, no threads. The caller observes the runtime, calls `step`, executes the actions
//! in tasks of its own, and calls it again when one of them ends, when something changes, or when the [`Action::Wake`]
//! is due. Actions under way are part of what is observed, so that none is issued twice; one that was issued and got
//! lost is issued again. Names, reasons, numbers and order are Kubernetes'.
//!
//! # A pod
//!
//! | [`Stage`] | what is done | goes on to |
//! |---|---|---|
//! | Syncing | sandbox, then init containers in order, then regular ones; ended ones come again by policy | Terminating: deleted, evicted, past its deadline, an init container failed for good, all regular containers ended for good, sandbox lost and `Never` |
//! | Terminating | containers, then sidecars in reverse order, then sandboxes are stopped; nothing is started | Terminated: nothing runs, nothing is being started, every sandbox is stopped |
//! | Terminated | nothing; volumes and IDs can be given back | – |
//!
//! | [`Phase`] | when |
//! |---|---|
//! | Pending | an init container has not ended, a sidecar has not come up (and no regular container was started in this sandbox), or a container was never started |
//! | Running | one runs, or all have ended and one will come again |
//! | Succeeded | all regular containers ended with 0, for good |
//! | Failed | one of them did not; an init container failed for good; past the deadline; evicted; ended before it was all started |
//!
//! The last two are final: they outlive even the loss of the state, by [`State::resumed`]. A pod goes from
//! Running back to Pending only to be initialised again in a new sandbox.
//!
//! # A container
//!
//! | shown as | reason | when |
//! |---|---|---|
//! | Waiting | `ContainerCreating`, `PodInitializing` | it was never there; the second if the pod has init containers |
//! | Waiting | `ErrImagePull`, then `ImagePullBackOff` | its image cannot be had; tried again after 10 s, doubled to 300 s |
//! | Waiting | the reason of [`Outcome::Failed`] | it could not be created or started; tried again after 10 s |
//! | Waiting | `CrashLoopBackOff` | it ended and will come again, later |
//! | Running | | |
//! | Terminated | `Completed`, `Error`, or the runtime's (`OOMKilled`) | it ended; it stays so, or comes again at once |
//! | Terminated | `ContainerStatusUnknown`, 137 | it ran and is gone, or its state is unknown |
//!
//! - **Restarts.** A container's own rules apply, then its own policy, then the pod's. Sidecars always restart, init
//!   containers when they failed, ephemeral ones never. A container that its probe has killed restarts unless the
//!   policy is `Never`; one that was replaced for another definition or for other resources always restarts.
//! - **Back-off.** The first restart is at once; then 10 s from the end, doubled to 300 s. The back-off starts anew
//!   for a container that ended more than twice 300 s after its last restart, and for another definition.
//! - **Order.** An init container must end with 0, a sidecar must run, with its postStart hook done and its
//!   startup probe passed, before the next is started. Regular containers start side by side, but those
//!   after one with a postStart hook wait for it.
//! - **A new sandbox** is made when there is none, more than one is ready, the newest is not, it has no
//!   address, or its network is another than the pod's. First everything is stopped. In it init containers
//!   run again, and regular ones by their policy. A pod with `Never` in which something ran ends instead.
//! - **Probes.** First [`Probe::initial_delay`] after the start, then every period, never two of a kind at
//!   once. Before the startup probe has passed the others rest. Results count by their thresholds, anew for
//!   every instance. In a pod that ends only readiness is asked for; in one that has failed nothing is.
//! - **Ending.** preStop hook, then a sidecar's turn, then SIGTERM: all within one grace, of which at least
//!   2 s are left for the last. Grace is the deletion's, else the eviction's, else the pod's (at least 1 s); for
//!   a failed probe that probe's. A later deletion can only shorten it.
//!
//! # Where Kubernetes leaves something open
//!
//! A container that ran and disappears has ended with 137 and restarts by its policy: one with `Never` does not run
//! twice because it was forgotten. The first cause of a pod's end stands. A sidecar waits for every later sidecar, not
//! only the next. A pod that has ended always has a final phase.

mod absorb;
mod action;
mod backoff;
mod container;
mod ending;
mod error;
mod init;
mod keep;
mod kill;
mod moment;
mod observed;
mod pod;
mod probing;
mod sandbox;
mod settings;
mod start;
mod state;
mod status;
mod step;
mod tidy;
mod turn;

pub use action::{Action, HookKind, StopReason, Task};
pub use container::{Container, ContainerRestart, Probe, ProbeKind, RestartPolicy, RestartRule};
pub use error::Malformed;
pub use moment::Moment;
pub use observed::{ConditionStatus, Exit, Instance, InstanceState, Observed, Outcome, Sandbox, Verdict};
pub use pod::{Deletion, Eviction, Network, Pod, Role, Spec};
pub use settings::Settings;
pub use state::State;
pub use status::{Condition, ConditionKind, ContainerState, ContainerStatus, Phase, Stage, Status};
pub use step::step;
pub use types::ContainerName;
