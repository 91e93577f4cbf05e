//! Containers on these kernels, whose control groups are of version 2 alone: by the built-in engine, by
//! Debian's runc and by a newer one, with SELinux on. The suites are those that run on every machine; here they meet what others
//! do not have.

use std::path::Path;

use vm::{Exec, Mode, Payload, Vm};

use crate::suite::suite;

/// Test binaries that are brought along: the package, the binary's name, and the program in the guest.
const SUITES: [(&str, &str, &str); 5] = [
    ("cgroups", "root", "/opt/cgroups-root"),
    ("container", "root", "/opt/bundle-root"),
    ("wardlet-container", "root", "/opt/container-root"),
    ("wardlet-container", "slow", "/opt/container-slow"),
    ("runtime", "root", "/opt/runtime-root"),
];

/// By crate: the programs that a server is made of.
const PROGRAMS: [(&str, &str); 3] =
    [("wardlet", "wardlet"), ("monitor", "wardlet-monitor"), ("wardlet-container", "wardlet-container")];
const SERVER: &str = "/opt/server";
/// The host's labels for containers, where runtimes look for them.
const CONTEXTS: &str = "/usr/share/containers/selinux";

const HELPER: &str = "/opt/wardlet-container";
const RUNC: &str = "/usr/sbin/runc";
/// The testbed's.
const NEWER_RUNC: &str = "/opt/runc";

/// What a guest with systemd as process 1 needs beside what it has.
pub(crate) fn payloads_with_systemd() -> Vec<Payload> {
    let helper = vm::static_binary("wardlet-container", "wardlet-container").unwrap();
    let tests = vm::static_test("wardlet-container", "root").unwrap();
    let cgroups = vm::static_test("cgroups", "root").unwrap();
    vec![
        Payload::new(&cgroups, "/opt/cgroups-root"),
        Payload::new(&helper, HELPER),
        Payload::new(&tests, "/opt/container-root"),
        Payload::new(Path::new(RUNC), RUNC),
    ]
}

/// By the built-in engine and by Debian's runc: each container is in a scope of systemd, below a slice.
pub(crate) fn containers_are_started_limited_and_removed_in_scopes(vm: &Vm) {
    suite(vm, "scope::", Exec::new(&["/opt/cgroups-root", "--nocapture", "scope::", "kube::the_systemd"]));
    containers(vm, "/var/tmp", &["failures::", "limits::"]);
    containers(vm, "/var/tmp", &["one_more_process_is_held_as_a_user_of_the_pods"]);
    let left = vm.exec(&["systemctl", "list-units", "--all", "--plain", "--no-legend", "wardlet*"]).unwrap();
    assert_eq!(left.text(), "");
}

/// What the guest needs beside what it has.
pub(crate) fn payloads() -> Vec<Payload> {
    let helper = vm::static_binary("wardlet-container", "wardlet-container").unwrap();
    let tests = SUITES
        .iter()
        .map(|(package, binary, program)| Payload::new(&vm::static_test(package, binary).unwrap(), program));
    let programs = PROGRAMS.iter().map(|(package, name)| {
        Payload::new(&vm::static_binary(package, name).unwrap(), &format!("{SERVER}/{name}"))
    });
    let newer = testbed::cache::program("runc", "runc").unwrap();
    let others = [
        Payload::new(&helper, HELPER),
        Payload::new(Path::new(RUNC), RUNC),
        Payload::new(&newer, NEWER_RUNC),
    ];
    tests.chain(programs).chain(others).collect()
}

/// Tests of the crate `runtime` whose paths contain one of `filters`.
fn pods(vm: &Vm, filters: &[&str]) {
    pods_by("libcontainer", vm, filters);
}

/// The same, with this engine below the server.
fn pods_by(engine: &str, vm: &Vm, filters: &[&str]) {
    let command = [&["/opt/runtime-root", "--test-threads=1", "--nocapture"], filters].concat();
    let run = Exec::new(&command).env("WARDLET_PROGRAMS", SERVER).env("WARDLET_ENGINE", engine);
    suite(vm, &filters.join(" "), run);
}

/// Tests of the crate `wardlet-container` whose paths contain one of `filters`, with containers made in `dir`.
fn containers(vm: &Vm, dir: &str, filters: &[&str]) {
    let command = [&["/opt/container-root", "--test-threads=2", "--nocapture"], filters].concat();
    let run = Exec::new(&command).env("WARDLET_TEST_HELPER", HELPER).env("WARDLET_TEST_DIR", dir);
    suite(vm, &filters.join(" "), run);
}

/// Tests of the crate `bundle` in this module.
fn bundles(vm: &Vm, module: &str) {
    suite(vm, module, Exec::new(&["/opt/bundle-root", "--test-threads=2", "--nocapture", module]));
}

pub(crate) fn control_groups_of_version_2_are_made_limited_counted_and_removed(vm: &Vm) {
    let command = ["/opt/cgroups-root", "--test-threads=2", "--nocapture"];
    suite(vm, "cgroup::", Exec::new(&command));
}

pub(crate) fn layers_of_images_are_shown_as_one(vm: &Vm) {
    bundles(vm, "images::");
}

/// In namespaces of a pod's own: maps, capabilities, filter, groups, limits, label and all else.
pub(crate) fn one_more_process_is_held_as_the_first_one(vm: &Vm) {
    containers(vm, "/var/tmp", &["one_more_process_is_held_as_a_user_of_the_pods"]);
}

/// The same by the testbed's runc, in namespaces of the host's and of a pod's own.
pub(crate) fn one_more_process_is_held_as_the_first_one_by_a_newer_runc(vm: &Vm) {
    let command = ["/opt/container-slow", "--nocapture", "newer_runc::"];
    let run = Exec::new(&command).env("WARDLET_TEST_HELPER", HELPER).env("WARDLET_TEST_DIR", "/var/tmp");
    suite(vm, "newer_runc::", run.env("WARDLET_TEST_RUNC", NEWER_RUNC));
}

/// Here runc may limit processes in user namespaces, too.
pub(crate) fn limits_are_the_kernels_and_memory_that_runs_out_is_counted(vm: &Vm) {
    containers(vm, "/var/tmp", &["limits::limits", "limits::memory"]);
}

/// Without a controller for devices only a program of ours keeps a container from the host's disks.
pub(crate) fn a_container_opens_no_device_that_it_was_not_given(vm: &Vm) {
    containers(vm, "/var/tmp", &["a_node_that_a_container_makes"]);
}

/// With SELinux on, a label is written to a file of /proc before the program runs.
pub(crate) fn nothing_takes_the_place_of_the_kernels_files(vm: &Vm) {
    vm.set_mode(Mode::Enforcing).unwrap();
    containers(vm, "/var/tmp", &["nothing_is_mounted_in_the_place"]);
}

pub(crate) fn labels_are_those_of_all_processes_in_both_modes(vm: &Vm) {
    vm.set_mode(Mode::Permissive).unwrap();
    containers(vm, "/var/tmp", &["label::by_the_built_in_engine_every_process_of_a_pod"]);
    vm.set_mode(Mode::Enforcing).unwrap();
    containers(vm, "/var/tmp", &["every_process_of_a_pod"]);
}

/// The older of these kernels cannot idmap a tmpfs, which `/run` is on.
pub(crate) fn layers_on_a_tmpfs_are_the_containers(vm: &Vm) {
    let test = "run::files_are_given_to_the_containers_users_where_they_cannot_be_idmapped";
    containers(vm, "/run", &["--exact", test]);
}

/// The same kernel cannot show `/etc/hosts` and its like through maps from there.
pub(crate) fn a_pods_own_files_come_from_a_run_directory_in_memory(vm: &Vm) {
    pods(vm, &["--exact", "pods::the_pods_own_files_belong_to_its_root_also_in_a_run_directory_in_memory"]);
}

pub(crate) fn every_pod_has_a_label_of_its_own_in_both_modes(vm: &Vm) {
    labels_by("libcontainer", vm);
}

/// It labels the pod's message queues after they are mounted, which only their owner may: the pod's root.
pub(crate) fn every_pod_has_a_label_of_its_own_by_runc_in_both_modes(vm: &Vm) {
    labels_by(RUNC, vm);
}

fn labels_by(engine: &str, vm: &Vm) {
    let contexts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/selinux/tests/contexts/fedora");
    vm.exec(&["mkdir", "-p", CONTEXTS]).unwrap();
    vm.put(Path::new(contexts), &format!("{CONTEXTS}/contexts")).unwrap();
    for mode in [Mode::Permissive, Mode::Enforcing] {
        vm.set_mode(mode).unwrap();
        pods_by(engine, vm, &["selinux::"]);
    }
}
