//! A reconciler that runs pods over CRI, from their start to their removal, on any CRI runtime.
//!
//! A source of pods says which pods this node is to run. `admission` validates and plans each of them; the
//! result is an [`Admitted`] pod. [`Agent::sync`] takes it as an update: a new pod is recorded, gets its host
//! IDs and volumes and a worker; a running pod is changed in the fields that Kubernetes allows to change. The
//! worker observes the pod's state in the runtime, asks `lifecycle` for the next actions, executes them, and
//! repeats this when the runtime reports an event. A [`Handle`] gives the caller that started the pod its
//! status, its end and its removal.
//!
//! | where | what |
//! |---|---|
//! | [`ports`] | traits for the sources of pods, objects and time, and for the sinks of statuses and events |
//! | `agent` | the running pods: start, update, stop |
//! | `sources/` | files as a source of pods, and of the ConfigMaps and Secrets that pods name |
//! | `pod/` | one pod: its record and lock, its worker, files and mounts of its containers, allowed updates |
//! | `images/` | image pulls: credentials, limits, which pods may use an image |
//! | `cri/` | CRI calls, the observed state of a pod, requests for sandboxes and containers, [`Call`] |
//! | `probe/` | probes and hooks |
//! | `status/` | statuses and events, and their first sinks |
//! | `instance` | the ID of a state directory, in the annotations of its sandboxes and containers |
//! | `root_dir` | the kubelet's root directory |
//! | `housekeeping/` | the removal of ended pods, and of what has no record; [`logs`] |
//! | `metrics/` | the agent's metrics, under the kubelet's names |
//!
//! It uses CRI only: this crate depends on no runtime.

mod agent;
mod blocking;
mod bucket;
mod cri;
mod error;
mod housekeeping;
mod images;
mod instance;
mod isolation;
mod metrics;
mod pod;
pub mod ports;
mod probe;
mod root_dir;
mod shared;
mod sources;
mod status;

pub use self::cri::call_log::CallLog;
pub use self::cri::calls::Journal;
pub use self::cri::dns::{ClusterDns, DnsSettings, PodDefaults};
pub use self::cri::journal::{Call, MountAsked, UserNamespaceAsked};
pub use admission::{Admitted, PodOrigin};
pub use agent::{Agent, Options};
pub use bucket::Bucket;
pub use cgroups::kube::NodeLimits;
pub use error::{Error, Result};
pub use housekeeping::logs;
pub use images::ImageOptions;
pub use images::access::ImageRecords;
pub use images::limits::PullLimits;
pub use images::verification::CredentialVerification;
pub use instance::InstanceId;
pub use lifecycle::Settings;
pub use logs::{LogChecks, LogFiles, LogRotation, LogSize};
pub use pod::cgroups::{CgroupDriver, CgroupOptions, PodCgroups};
pub use pod::claim::{running_pod, running_pods};
pub use pod::handle::Handle;
pub use pod::node_fields::NodeFields;
pub use pod::orders::Orders;
pub use pod::parent::{CpuLimits, OomKill};
pub use pod::start_steps::{StartStep, StartTimes, StepKind};
pub use pod::store::{PodRecord, StopRequest, Stored, ask_to_stop, stored, stored_one};
pub use pod::sweep::sweep_state;
pub use pod::update::{PodUpdate, Synced};
pub use pod::view::RunningPod;
pub use root_dir::make_root_dir;
pub use sources::desired::{Changes, Desired, Key};
pub use sources::files::{FileProblem, FileSet, FileSource};
pub use sources::manifests::{Unreadable, read_complete_manifests, read_manifests};
pub use sources::objects::Objects;
pub use status::events::EventLog;
pub use status::pending::pending_status;
pub use status::sink::StatusFiles;
pub use status::startup::{START_PATIENCE, StartReport, StartWatch, Startup, any_changed};
pub use status::view::{
    ConditionView, ContainerView, ExitView, InstanceView, PodStatus, StateView, UserView,
};
