//! Containers on these kernels, whose control groups are of version 2 alone: by the built-in engine, by
//! Debian's runc and by a newer one, with SELinux on. The suites are those that run on every machine; here they meet what others
//! do not have.

use std::path::Path;

use vm::{Exec, Mode, Payload, Vm};

use crate::suite::suite;

/// By crate: the suites that are brought along.
const SUITES: [(&str, &[&str]); 3] = [
    ("bundle", &["root_cgroup", "root_images"]),
    (
        "wardlet-container",
        &["root_attacks", "root_run", "root_same", "root_limits", "root_label", "slow_newer_runc"],
    ),
    ("runtime", &["root_pods", "root_selinux"]),
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

/// What the guest needs beside what it has.
pub(crate) fn payloads() -> Vec<Payload> {
    let helper = vm::static_binary("wardlet-container", "wardlet-container").unwrap();
    let tests = SUITES.iter().flat_map(|(package, tests)| tests.iter().map(move |test| (*package, *test)));
    let tests = tests.map(|(package, test)| {
        Payload::new(&vm::static_test(package, test).unwrap(), &format!("/opt/{test}"))
    });
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

/// A suite about pods of a server of ours: only those of its tests that `words` name.
fn pods(vm: &Vm, name: &str, words: &[&str]) {
    pods_by("libcontainer", vm, name, words);
}

/// The same, with this engine below the server.
fn pods_by(engine: &str, vm: &Vm, name: &str, words: &[&str]) {
    let program = format!("/opt/{name}");
    let command = [&[program.as_str(), "--test-threads=1", "--nocapture"], words].concat();
    let run = Exec::new(&command).env("WARDLET_PROGRAMS", SERVER).env("WARDLET_ENGINE", engine);
    suite(vm, name, run);
}

/// A suite about containers, made in `dir`: only those of its tests that `words` name.
fn containers(vm: &Vm, name: &str, dir: &str, words: &[&str]) {
    let program = format!("/opt/{name}");
    let command = [&[program.as_str(), "--test-threads=2", "--nocapture"], words].concat();
    let run = Exec::new(&command).env("WARDLET_TEST_HELPER", HELPER).env("WARDLET_TEST_DIR", dir);
    suite(vm, name, run);
}

pub(crate) fn control_groups_of_version_2_are_made_limited_counted_and_removed(vm: &Vm) {
    suite(vm, "root_cgroup", Exec::new(&["/opt/root_cgroup", "--test-threads=2", "--nocapture"]));
}

pub(crate) fn layers_of_images_are_shown_as_one(vm: &Vm) {
    suite(vm, "root_images", Exec::new(&["/opt/root_images", "--test-threads=2", "--nocapture"]));
}

/// In namespaces of a pod's own: maps, capabilities, filter, groups, limits, label and all else.
pub(crate) fn one_more_process_is_held_as_the_first_one(vm: &Vm) {
    containers(vm, "root_same", "/var/tmp", &["one_more_process_is_held_as_a_user_of_the_pods"]);
}

/// The same by the testbed's runc, in namespaces of the host's and of a pod's own.
pub(crate) fn one_more_process_is_held_as_the_first_one_by_a_newer_runc(vm: &Vm) {
    let command = ["/opt/slow_newer_runc", "--nocapture"];
    let run = Exec::new(&command).env("WARDLET_TEST_HELPER", HELPER).env("WARDLET_TEST_DIR", "/var/tmp");
    suite(vm, "slow_newer_runc", run.env("WARDLET_TEST_RUNC", NEWER_RUNC));
}

/// Here runc may limit processes in user namespaces, too.
pub(crate) fn limits_are_the_kernels_and_memory_that_runs_out_is_counted(vm: &Vm) {
    containers(vm, "root_limits", "/var/tmp", &["limits", "memory"]);
}

/// Without a controller for devices only a program of ours keeps a container from the host's disks.
pub(crate) fn a_container_opens_no_device_that_it_was_not_given(vm: &Vm) {
    containers(vm, "root_attacks", "/var/tmp", &["a_node_that_a_container_makes"]);
}

/// With SELinux on, a label is written to a file of /proc before the program runs.
pub(crate) fn nothing_takes_the_place_of_the_kernels_files(vm: &Vm) {
    vm.set_mode(Mode::Enforcing).unwrap();
    containers(vm, "root_attacks", "/var/tmp", &["nothing_is_mounted_in_the_place"]);
}

pub(crate) fn labels_are_those_of_all_processes_in_both_modes(vm: &Vm) {
    vm.set_mode(Mode::Permissive).unwrap();
    containers(vm, "root_label", "/var/tmp", &["by_the_built_in_engine_every_process_of_a_pod"]);
    vm.set_mode(Mode::Enforcing).unwrap();
    containers(vm, "root_label", "/var/tmp", &["every_process_of_a_pod"]);
}

/// The older of these kernels cannot idmap a tmpfs, which `/run` is on.
pub(crate) fn layers_on_a_tmpfs_are_the_containers(vm: &Vm) {
    let test = "files_are_given_to_the_containers_users_where_they_cannot_be_idmapped";
    containers(vm, "root_run", "/run", &["--exact", test]);
}

/// The same kernel cannot show `/etc/hosts` and its like through maps from there.
pub(crate) fn a_pods_own_files_come_from_a_run_directory_in_memory(vm: &Vm) {
    pods(
        vm,
        "root_pods",
        &["--exact", "the_pods_own_files_belong_to_its_root_also_in_a_run_directory_in_memory"],
    );
}

pub(crate) fn every_pod_has_a_label_of_its_own_in_both_modes(vm: &Vm) {
    labels_by("libcontainer", vm);
}

/// It labels the pod's message queues after they are mounted, which only their owner may: the pod's root.
pub(crate) fn every_pod_has_a_label_of_its_own_by_runc_in_both_modes(vm: &Vm) {
    labels_by(RUNC, vm);
}

fn labels_by(engine: &str, vm: &Vm) {
    let contexts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/labels/tests/contexts/fedora");
    vm.exec(&["mkdir", "-p", CONTEXTS]).unwrap();
    vm.put(Path::new(contexts), &format!("{CONTEXTS}/contexts")).unwrap();
    for mode in [Mode::Permissive, Mode::Enforcing] {
        vm.set_mode(mode).unwrap();
        pods_by(engine, vm, "root_selinux", &[]);
    }
}
