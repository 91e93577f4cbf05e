//! The built-in CRI server.
//!
//! [`Runtime`] answers CRI's two services for the pods of one node. A pod is a sandbox (namespaces, kept by
//! pins, with files, a network and a monitor) and containers in it, which the monitor starts and watches: they
//! go on while no server runs.
//!
//! | where | what |
//! |---|---|
//! | `records`, `durable`, `layout` | what is written down, before anything is done, and where |
//! | `book`, `life` | the same in memory, and what has become of each container |
//! | `sandbox`, `container` | making, changing and taking away; each step can be done again |
//! | `monitors`, `events` | who tells us, and whom we tell |
//! | `recover` | what the last server left, brought into line with the records |
//! | `calls`, `view`, `looks`, `streams` | CRI's calls, and what is behind the URLs of streams |
//! | [`order`], [`userns`] | a container as CRI asks for it, lowered to what is started |
//! | [`image_service`], [`stats`], [`status`] | images, use, abilities |
//!
//! One lock for each sandbox is held while it changes; no other sandbox waits for it.

mod abilities;
mod book;
mod calls;
mod container;
mod drain;
mod error;
mod events;
mod facts;
mod files;
mod groups;
mod id;
pub mod image_service;
mod layout;
mod life;
mod looks;
mod monitors;
mod node;
pub mod order;
mod owner;
mod readiness;
mod recorded;
mod records;
mod recover;
mod sandbox;
mod selinux;
mod server;
mod settings;
pub mod stats;
pub mod status;
mod streams;
pub mod userns;
mod view;
mod watchers;

pub use error::{Error, Result};
pub use recorded::{RecordedSandbox, recorded_sandboxes};
pub use server::Runtime;
pub use settings::{Programs, Settings};
