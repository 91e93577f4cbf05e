//! Containers in guests with control groups of version 2 alone and SELinux on; one boot per kernel.

mod containers;

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use vm::{Init, Options, Series, Vm};

static ON_6_1: LazyLock<Mutex<Vm>> = LazyLock::new(|| boot(Series::V6_1));
static ON_6_12: LazyLock<Mutex<Vm>> = LazyLock::new(|| boot(Series::V6_12));

fn boot(series: Series) -> Mutex<Vm> {
    vm::ensure(series).unwrap();
    let options = Options { payloads: containers::payloads(), ..Options::new(series) };
    Mutex::new(Vm::boot(&options).unwrap())
}

fn guest(of: &'static LazyLock<Mutex<Vm>>) -> MutexGuard<'static, Vm> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a test of each name on each kernel.
macro_rules! on_each_kernel {
    ($($name:ident)*) => {
        mod on_6_1 {
            $(#[test] fn $name() { super::containers::$name(&super::guest(&super::ON_6_1)); })*
        }
        mod on_6_12 {
            $(#[test] fn $name() { super::containers::$name(&super::guest(&super::ON_6_12)); })*
        }
    };
}

on_each_kernel! {
    control_groups_of_version_2_are_made_limited_counted_and_removed
    layers_of_images_are_shown_as_one
    one_more_process_is_held_as_the_first_one
    one_more_process_is_held_as_the_first_one_by_a_newer_runc
    limits_are_the_kernels_and_memory_that_runs_out_is_counted
    a_container_opens_no_device_that_it_was_not_given
    nothing_takes_the_place_of_the_kernels_files
    labels_are_those_of_all_processes_in_both_modes
    layers_on_a_tmpfs_are_the_containers
    a_pods_own_files_come_from_a_run_directory_in_memory
    every_pod_has_a_label_of_its_own_in_both_modes
    every_pod_has_a_label_of_its_own_by_runc_in_both_modes
}

/// A scope is where an engine's own clean-up is, too: why a start failed is told all the same.
#[test]
fn containers_are_in_scopes_where_process_1_is_systemd() {
    vm::ensure(Series::V6_12).unwrap();
    let payloads = containers::payloads_with_systemd();
    let options = Options { payloads, init: Init::Systemd, ..Options::new(Series::V6_12) };
    containers::containers_are_started_limited_and_removed_in_scopes(&Vm::boot(&options).unwrap());
}
