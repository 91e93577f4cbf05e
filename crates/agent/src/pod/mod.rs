//! One pod: its record, its worker, and the files and mounts of its containers.

pub(crate) mod change;
pub(crate) mod claim;
pub(crate) mod context;
pub(crate) mod env;
pub(crate) mod executor;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod gates;
pub(crate) mod handle;
pub(crate) mod images;
pub(crate) mod keyring;
pub(crate) mod lock;
pub(crate) mod mounts;
pub(crate) mod notices;
pub(crate) mod orders;
pub(crate) mod owners;
pub(crate) mod payload;
pub(crate) mod running;
pub(crate) mod spec;
pub(crate) mod stop_requests;
pub(crate) mod store;
pub(crate) mod sweep;
pub(crate) mod update;
pub(crate) mod users;
pub(crate) mod worker;
