//! Pods carried through their lives over CRI, whichever runtime answers.
//!
//! A pod that was read, found valid and planned is [`Admitted`]. [`Agent::start`] writes it down, leases its
//! host IDs, sets its volumes up and gives it a worker; the worker looks at what the runtime has, asks
//! `lifecycle` what is to be done, does it, and asks again when the runtime says that something happened.
//! [`Handle`] is the pod for whoever started it: its status, its end, its removal.
//!
//! | where | what |
//! |---|---|
//! | `agent`, `claim`, `handle`, `teardown` | taking a pod on, ending it, removing all of it |
//! | `worker`, `chores`, `look`, `events`, `requests` | the loop: what is, what is to be done, doing it, who wakes it |
//! | `spec`, [`check`], `placement` | a pod of the API as `lifecycle` has it; what is not run, or not here |
//! | `sandbox`, `container`, `security`, `resources`, `names`, `dns` | what the runtime is asked for; pure but for the node's own files |
//! | `mounts`, `written`, `env`, `fields`, [`Objects`] | volumes, files and variables from the objects that a pod names |
//! | `images`, `keyring`, `probe`, `files` | images fetched, with whose credentials, containers asked, /etc/hosts and last words |
//! | [`store`](stored), `status`, `tended` | what is written down, who finds it later, and whose a pod is |
//! | [`logs`] | the logs that runtimes write |
//! | [`Call`] | what was asked of the runtime, to be compared with the plan |
//!
//! It speaks CRI and nothing else: no runtime is imported here.

mod agent;
mod chores;
mod claim;
mod container;
mod cri;
mod dns;
mod env;
mod error;
mod events;
mod fields;
mod files;
mod handle;
mod images;
mod journal;
mod keyring;
pub mod logs;
mod look;
mod mounts;
mod names;
mod placement;
mod probe;
mod refused;
mod requests;
mod resources;
mod sandbox;
mod security;
mod shared;
mod source;
mod spec;
mod status;
mod store;
mod teardown;
mod tended;
mod ward;
mod worker;
mod written;

pub use agent::{Agent, Options};
pub use cri::Journal;
pub use error::{Error, Result};
pub use handle::{Handle, Orders};
pub use journal::{Call, MountAsked, UserNamespaceAsked};
pub use lifecycle::Settings;
pub use logs::{LogFiles, LogRotation, LogSize};
pub use refused::check;
pub use shared::{Event, EventKind, Tell};
pub use source::Objects;
pub use status::{ConditionView, ContainerView, ExitView, PodStatus, StateView};
pub use store::{PodRecord, StopRequest, Stored, ask_to_stop, stored, stored_one};
pub use ward::Admitted;
