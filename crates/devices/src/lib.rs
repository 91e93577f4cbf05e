//! Device plugins of a node, by the kubelet's device plugin API `v1beta1`, and the PodResources API.
//!
//! A plugin registers at a socket of the node, the node connects to the plugin's socket, and the plugin lists its devices for
//! as long as the connection lasts. A container that asks for devices gets some of them: the plugin says by which variables,
//! mounts, device nodes, annotations and CDI devices. What each container has is in the kubelet's checkpoint file, so that an
//! agent that is started anew, or takes a kubelet's place, gives no device away twice.
//!
//! | where | what |
//! |---|---|
//! | [`DeviceManager`] | the devices of the node: which there are, and which container has which |
//! | [`PodRequest`] | what a pod asks for |
//! | [`ContainerEdits`] | what a container gets with its devices |
//! | `state` | resources, plugins and allocations; pure |
//! | `checkpoint`, `save` | the kubelet's file of allocations, with its checksum, and when it is written |
//! | `plugin` | calls of a plugin |
//! | `registration` | the socket at which plugins register |
//! | [`plugin_watcher`] | plugins that are registered by a socket in the directory `plugins_registry` |
//! | [`pod_resources`] | the PodResources API |
//! | `socket`, `authority` | serving gRPC on a Unix socket to clients that name the socket's path as the server |
//! | [`api`] | the protocols, from `proto/`: the public names and numbers, our own words |
//!
//! It knows no Kubernetes objects and no container runtime.

mod allocate;
pub mod api;
mod authority;
mod checkpoint;
mod connect;
mod dump;
mod edits;
mod error;
mod manager;
mod metrics;
mod plugin;
pub mod plugin_watcher;
pub mod pod_resources;
mod registration;
mod request;
mod rewrite;
mod save;
mod socket;
mod state;

pub use edits::{ContainerEdits, DeviceMount, DeviceNode};
pub use error::{AllocateError, CallError, Error, Result};
pub use manager::DeviceManager;
pub use registration::RegistrationServer;
pub use request::{ContainerRequest, Lifetime, PodRequest};
pub use state::{AllocatedDevice, DeviceCount, Health};
