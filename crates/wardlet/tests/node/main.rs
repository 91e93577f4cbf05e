//! Tests of this crate: what needs a whole node to itself.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;

mod cluster_kubectl;
mod cluster_metrics;
mod cluster_refused;
mod cluster_services;
mod cluster_workloads;
mod compare_cri;
mod device_plugin;
mod takeover;
mod verify;
mod verify_beside;
