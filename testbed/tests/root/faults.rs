//! Faults on demand do what they say, and what they broke can be mended.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::faults::{self, KillAt, disk};
use testbed::{Part, Parts, Testbed};
use testkit::wait_until;

fn succeeds(command: &mut Command) -> bool {
    command.output().expect("a program that runs").status.success()
}

fn namespaces(testbed: &Testbed, kubeconfig: &std::path::Path) -> bool {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    succeeds(testbed.command("kubectl").args([
        &kubeconfig,
        "--request-timeout=2s",
        "get",
        "--raw",
        "/readyz",
    ]))
}

#[test]
fn an_api_server_can_be_stopped_killed_and_cut_off_from_the_node_alone() {
    let mut testbed = Testbed::start(Parts::control_plane()).expect("a control plane");
    let (admin, node) = (testbed.kubeconfig(), testbed.node_kubeconfig());
    assert!(namespaces(&testbed, &admin) && namespaces(&testbed, &node));

    faults::stop(&testbed, Part::Apiserver).expect("stopped");
    assert!(!namespaces(&testbed, &admin));
    faults::resume(&testbed, Part::Apiserver).expect("resumed");
    wait_until("it goes on", || namespaces(&testbed, &admin));

    let cut = faults::cut_off_node(&testbed).expect("cut off");
    assert!(!namespaces(&testbed, &node), "the node still gets through");
    assert!(namespaces(&testbed, &admin), "the administrator is cut off too");
    drop(cut);
    wait_until("the node is back", || namespaces(&testbed, &node));

    faults::kill(&testbed, Part::Apiserver).expect("killed");
    assert!(!namespaces(&testbed, &admin));
    testbed.restart(Part::Apiserver).expect("started again");
    assert!(namespaces(&testbed, &admin));
}

#[test]
fn a_part_dies_at_the_system_call_that_was_named_and_starts_again() {
    let mut testbed = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let at = KillAt { calls: "pwrite64", number: 1 };
    let started = faults::kill_at(&mut testbed, Part::Etcd, &at);
    // It may have died before it was ready, or it dies with the first write.
    if started.is_ok() {
        let put = "curl -s http://127.0.0.1:2379/v3/kv/put -d '{\"key\":\"YQ==\",\"value\":\"YQ==\"}'";
        testbed.command("sh").args(["-c", put]).output().expect("curl");
    }
    let process = testbed.record().daemon("etcd").expect("etcd").process;
    wait_until("it is dead", || !process.alive());
    testbed.restart(Part::Etcd).expect("its data is whole");
}

#[test]
fn a_small_disk_fills_up_and_is_freed() {
    let testbed = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let directory = testbed.record().places.data.join("small");
    fs::create_dir(&directory).expect("a directory");
    let small = disk::small(&testbed, &directory, 1 << 20).expect("a small disk");
    let write = || {
        let script = "echo words > \"$1/file\" && rm \"$1/file\"";
        succeeds(testbed.command("sh").args(["-c", script, "write"]).arg(&directory))
    };
    assert!(write());
    small.fill().expect("filled");
    assert!(!write(), "there is still room");
    small.free().expect("freed");
    assert!(write());
    assert!(!directory.join("file").exists() && fs::read_dir(&directory).expect("it").count() == 0);
}

#[test]
fn a_throttled_disk_takes_the_time_that_it_should() {
    let testbed = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let file = testbed.record().places.data.join("written");
    let write = || {
        let began = Instant::now();
        let target = format!("of={}", file.display());
        let mut dd = testbed.command("dd");
        assert!(succeeds(dd.args(["if=/dev/zero", &target, "bs=64k", "count=64", "oflag=direct"])));
        began.elapsed()
    };
    let quick = write();
    disk::throttle(&testbed, 2 << 20).expect("a throttle");
    let slow = write();
    assert!(slow > Duration::from_millis(1500), "4 MiB at 2 MiB/s took {slow:?}, unthrottled {quick:?}");
}

#[test]
fn every_sync_of_a_part_can_be_made_slow() {
    let mut testbed = Testbed::start(Parts::of(&[Part::Containerd])).expect("containerd");
    let create = |testbed: &Testbed, name: &str| {
        let began = Instant::now();
        assert!(succeeds(testbed.command("ctr").args(["namespaces", "create", name])));
        began.elapsed()
    };
    let quick = create(&testbed, "quick");
    disk::slow_sync(&mut testbed, Part::Containerd, 400_000).expect("slow");
    let slow = create(&testbed, "slow");
    assert!(slow > quick + Duration::from_millis(350), "quick {quick:?}, slow {slow:?}");
}
