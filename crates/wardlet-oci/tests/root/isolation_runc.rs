//! Containers of a pod with a user namespace on Debian's runc 1.1, in bundles such as containerd's. Needs root.

use crate::isolation;

use isolation::{Host, checks, debians};

#[test]
fn owners_are_right_inside_and_outside() {
    Host::play(debians(), checks::owners_are_right_inside_and_outside);
}

#[test]
fn volumes_are_seen_with_their_owners_and_written_as_on_disk() {
    Host::play(debians(), checks::volumes_are_seen_with_their_owners_and_written_as_on_disk);
}

#[test]
fn mounts_below_a_volume_come_along_and_travel_as_asked() {
    Host::play(debians(), checks::mounts_below_a_volume_come_along_and_travel_as_asked);
}

#[test]
fn a_user_writes_to_its_standard_streams_by_name() {
    Host::play(debians(), checks::a_user_writes_to_its_standard_streams_by_name);
}

#[test]
fn a_user_serves_on_port_80() {
    Host::play(debians(), checks::a_user_serves_on_port_80);
}

#[test]
fn all_are_in_the_pods_namespaces_and_exec_in_all_of_inits() {
    Host::play(debians(), checks::all_are_in_the_pods_namespaces_and_exec_in_all_of_inits);
}

#[test]
fn the_pods_network_is_seen_and_set_from_outside() {
    Host::play(debians(), checks::the_pods_network_is_seen_and_set_from_outside);
}

#[test]
fn the_host_sees_no_mount_of_ours() {
    Host::play(debians(), checks::the_host_sees_no_mount_of_ours);
}

#[test]
fn a_device_that_was_given_is_the_containers() {
    Host::play(debians(), checks::a_device_that_was_given_is_the_containers);
}

#[test]
fn a_root_that_is_read_only_stays_so() {
    Host::play(debians(), checks::a_root_that_is_read_only_stays_so);
}

#[test]
fn a_network_of_the_pods_own_is_left_to_the_runtime() {
    Host::play(debians(), checks::a_network_of_the_pods_own_is_left_to_the_runtime);
}

#[test]
fn processes_of_a_pod_are_shared_where_that_is_asked_for() {
    Host::play(debians(), checks::processes_of_a_pod_are_shared_where_that_is_asked_for);
}

#[test]
fn what_the_caller_made_for_the_pod_is_the_pods() {
    Host::play(debians(), checks::what_the_caller_made_for_the_pod_is_the_pods);
}
