//! The CRI runtime: its calls, what it reports of a pod, and the requests for sandboxes and containers.

pub(crate) mod call_log;
pub(crate) mod calls;
pub(crate) mod container;
pub(crate) mod devices;
pub(crate) mod dns;
pub(crate) mod go_json;
pub(crate) mod journal;
pub(crate) mod mappings;
pub(crate) mod marks;
pub(crate) mod notifier;
pub(crate) mod observe;
pub(crate) mod resolv_conf;
pub(crate) mod resources;
pub(crate) mod running;
pub(crate) mod sandbox;
pub(crate) mod security;
