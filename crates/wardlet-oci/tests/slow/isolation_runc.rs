//! Containers of a pod with a user namespace on the testbed's runc, which joins namespaces in another order than
//! Debian's. Needs root.

use crate::isolation;

use isolation::{Host, Runtime, checks};

fn play(check: impl FnOnce(&Host) + Send) {
    let program = testbed::cache::program("runc", "runc").unwrap();
    Host::play(Runtime { program, traits: "runc" }, check);
}

#[test]
fn owners_are_right_inside_and_outside() {
    play(checks::owners_are_right_inside_and_outside);
}

#[test]
fn volumes_are_seen_with_their_owners_and_written_as_on_disk() {
    play(checks::volumes_are_seen_with_their_owners_and_written_as_on_disk);
}

#[test]
fn mounts_below_a_volume_come_along_and_travel_as_asked() {
    play(checks::mounts_below_a_volume_come_along_and_travel_as_asked);
}

#[test]
fn a_user_writes_to_its_standard_streams_by_name() {
    play(checks::a_user_writes_to_its_standard_streams_by_name);
}

#[test]
fn a_user_serves_on_port_80() {
    play(checks::a_user_serves_on_port_80);
}

#[test]
fn all_are_in_the_pods_namespaces_and_exec_in_all_of_inits() {
    play(checks::all_are_in_the_pods_namespaces_and_exec_in_all_of_inits);
}

#[test]
fn the_pods_network_is_seen_and_set_from_outside() {
    play(checks::the_pods_network_is_seen_and_set_from_outside);
}

#[test]
fn the_host_sees_no_mount_of_ours() {
    play(checks::the_host_sees_no_mount_of_ours);
}

#[test]
fn a_device_that_was_given_is_the_containers() {
    play(checks::a_device_that_was_given_is_the_containers);
}

#[test]
fn a_root_that_is_read_only_stays_so() {
    play(checks::a_root_that_is_read_only_stays_so);
}

#[test]
fn a_network_of_the_pods_own_is_left_to_the_runtime() {
    play(checks::a_network_of_the_pods_own_is_left_to_the_runtime);
}

#[test]
fn processes_of_a_pod_are_shared_where_that_is_asked_for() {
    play(checks::processes_of_a_pod_are_shared_where_that_is_asked_for);
}

#[test]
fn what_the_caller_made_for_the_pod_is_the_pods() {
    play(checks::what_the_caller_made_for_the_pod_is_the_pods);
}
