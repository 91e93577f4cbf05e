//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/api.rs"]
mod api;
#[path = "../support/mod.rs"]
mod support;

mod architecture;
mod cli_bad_input;
mod cli_check;
mod cli_check_cluster;
mod cli_check_docs;
mod cli_check_facts;
mod cli_check_input;
mod cli_check_outputs;
mod cli_check_selinux;
mod cli_config;
mod cli_contract;
mod cli_docs;
mod cli_doctor;
mod cli_doctor_ids;
mod cli_doctor_wrapper;
mod cli_explain;
mod cli_explain_run;
mod cli_gc;
mod cli_kubelet;
mod cli_leases;
mod cli_pairs;
mod cli_upstream_defects;
mod cli_verify;
mod deploy;
mod diagram;
mod file_graph;
mod tuple_parameters;
mod words;
