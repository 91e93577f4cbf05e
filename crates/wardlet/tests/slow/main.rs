//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/browser.rs"]
mod browser;
#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../foreign/mod.rs"]
mod foreign;
#[path = "../run_support/mod.rs"]
mod run_support;
#[path = "../stage/mod.rs"]
mod stage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../terminal/mod.rs"]
mod terminal;

mod agent;
mod agent_admission;
mod agent_adopt;
mod agent_cgroups;
mod agent_identity;
mod agent_images;
mod agent_kubeconfig;
mod agent_metrics;
mod agent_network;
mod agent_page;
mod agent_projected;
mod agent_sessions;
mod agent_status;
mod agent_updates;
mod check_cluster;
mod check_html;
mod check_large;
mod check_public;
mod cluster_control_plane;
mod cluster_faults;
mod cluster_mounts;
mod cluster_refused;
mod cluster_workloads;
mod compare_cri;
mod deploy;
mod doctor;
mod examples;
mod image_registry;
mod pages;
mod pictures;
mod run;
mod run_builtin;
mod run_chaos;
mod run_exec;
mod run_fields;
mod run_https;
mod run_logs;
mod run_orphans;
mod run_pull;
mod run_stop;
mod run_updates;
mod stories;
mod tutorial;
