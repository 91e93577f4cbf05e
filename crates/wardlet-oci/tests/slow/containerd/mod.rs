//! Pods behind containerd's CRI socket and shims: the old pair (containerd 1.6, runc 1.1), which knows nothing of
//! user namespaces, and the new one.

mod files;
mod lives;
mod network;
mod passing;
mod refusals;
mod shapes;

use crate::nodes::Setup;

/// Each of these holds on both.
macro_rules! on_both {
    ($($module:ident::$name:ident),* $(,)?) => {
        mod containerd_1_6 {
            $(#[test] fn $name() { super::$module::$name(super::Setup::Containerd16); })*
        }
        mod containerd_2 {
            $(#[test] fn $name() { super::$module::$name(super::Setup::Containerd2); })*
        }
    };
}

on_both!(
    files::two_pods_have_two_blocks_and_see_their_files_as_their_own,
    files::what_a_pod_writes_belongs_to_root_on_disk_and_not_to_its_block,
    files::a_user_of_the_image_writes_where_it_may_and_to_its_streams,
    network::a_pod_serves_on_port_80_as_an_ordinary_user,
    network::sysctls_of_the_network_are_set_inside_the_pod_only,
    lives::the_namespaces_of_exec_are_those_of_init,
    lives::a_container_that_is_made_again_has_the_block_of_its_pod,
    lives::pods_survive_a_restart_of_containerd,
    lives::a_killed_shim_gives_the_block_back,
    lives::verify_holds_for_annotated_pods,
    lives::doctor_sees_how_it_is_wired,
    passing::what_asks_for_nothing_or_meets_a_closed_gate_reaches_the_runtime_byte_for_byte,
    refusals::what_cannot_be_isolated_is_refused_with_its_reason_and_leaves_nothing,
    refusals::a_container_that_cannot_start_leaves_nothing,
    refusals::a_privileged_sandbox_is_isolated_and_its_privileged_container_is_refused,
    refusals::a_volume_that_cannot_be_idmapped_is_refused_by_its_name,
    shapes::containers_of_a_shared_pid_namespace_see_each_other,
    shapes::a_terminal_belongs_to_the_user_who_has_it,
    shapes::groups_limits_and_a_read_only_root_are_kept,
);

#[test]
fn a_user_namespace_from_the_kubelet_wins_and_nothing_is_leased() {
    refusals::a_user_namespace_from_the_kubelet_wins_and_nothing_is_leased(Setup::Containerd2);
}

/// These hold with crun as well: crun 1.8 takes only what the old containerd writes.
macro_rules! on_crun {
    ($($module:ident::$name:ident),* $(,)?) => {
        mod crun {
            $(#[test] fn $name() { super::$module::$name(super::Setup::Crun); })*
        }
    };
}

on_crun!(
    files::two_pods_have_two_blocks_and_see_their_files_as_their_own,
    files::what_a_pod_writes_belongs_to_root_on_disk_and_not_to_its_block,
    files::a_user_of_the_image_writes_where_it_may_and_to_its_streams,
    network::a_pod_serves_on_port_80_as_an_ordinary_user,
    network::sysctls_of_the_network_are_set_inside_the_pod_only,
    lives::the_namespaces_of_exec_are_those_of_init,
    lives::a_container_that_is_made_again_has_the_block_of_its_pod,
    lives::a_killed_shim_gives_the_block_back,
    shapes::containers_of_a_shared_pid_namespace_see_each_other,
    shapes::groups_limits_and_a_read_only_root_are_kept,
);
