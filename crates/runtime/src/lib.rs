//! The built-in CRI server.
//!
//! [`Runtime`] implements CRI's runtime service and image service for the pods of one node. A pod is a sandbox (pinned
//! namespaces, files, a network and a monitor) and its containers, which the monitor starts and supervises: they keep
//! running while no server runs.
//!
//! | where | what |
//! |---|---|
//! | `records`, `layout` | the records on disk, written before each step, and their paths |
//! | `store`, `container_state` | sandboxes and containers in memory, and the state of each container |
//! | `sandbox`, `container` | create, update, stop and remove; each step is idempotent |
//! | `pairs` | the node's allocator of SELinux category pairs, which the caller brings |
//! | `monitors`, `events` | connections to the pods' monitors; events for CRI clients |
//! | `recover` | recovery at the start: reconciles the node with the records |
//! | `calls`, `view`, `collect`, `streams` | CRI's calls, statistics, and the streaming server's handler |
//! | [`spec`], [`userns`] | builds a `ContainerSpec` from a CRI request |
//! | [`connect`] | a client's connection to this runtime or another one |
//! | [`image_service`], [`stats`], [`status`] | images, usage, runtime conditions and features |
//!
//! Each sandbox has a lock that a call holds while it changes the sandbox; calls for other sandboxes do not wait.

mod abilities;
mod calls;
mod collect;
pub mod connect;
mod container;
mod container_state;
mod drain;
mod error;
mod events;
mod facts;
mod files;
mod id;
pub mod image_service;
mod layout;
mod monitors;
mod node;
mod owner;
mod readiness;
mod recorded;
mod records;
mod recover;
mod sandbox;
mod selinux;
mod server;
mod settings;
pub mod spec;
pub mod stats;
pub mod status;
mod store;
mod streams;
pub mod userns;
mod view;
mod watchers;
mod work;

/// The errors of this crate.
pub use error::{Error, Result};
pub use recorded::{RecordedSandbox, recorded_sandboxes};
pub use server::Runtime;
pub use settings::{Programs, Settings, parent_cgroup};
