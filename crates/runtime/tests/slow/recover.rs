//! What a server finds that is not as the last one left it: after a reboot, with damaged records, with records of
//! what is gone, and with things that have no record.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use cgroups::{Group, Hierarchies};
use cri::client::Client;
use cri::{ContainerState, PodSandboxState};
use kernel::MountTable;
use monitor::ProcessId;
use support::pods::{ended, in_users, pod, remove_pod, run_shell, sandbox_status, status};
use support::traces::{Traces, end_group, end_monitors, monitors};
use support::{House, Options, until};

const FIRST: u32 = 1_507_328_000;

struct Made {
    sandbox: String,
    container: String,
}

async fn make(house: &House, n: u32, script: &str) -> Made {
    make_in(house, n, script, "").await
}

/// In a control group of the caller's, if one is named.
async fn make_in(house: &House, n: u32, script: &str, cgroup: &str) -> Made {
    let mut config = in_users(pod(house, &format!("pod-{n}")), FIRST + n * 65_536);
    config.linux.as_mut().unwrap().cgroup_parent = cgroup.into();
    let host_port = i32::try_from(19_000 + n).unwrap();
    config.port_mappings = vec![cri::PortMapping { container_port: 80, host_port, ..Default::default() }];
    let (sandbox, container) = run_shell(&house.client().await, &config, script).await.unwrap();
    Made { sandbox, container }
}

/// A house with a network in which a pod was before, and what is always there since.
async fn scene() -> (House, Traces) {
    let house = House::open(Options { network: "bridge".into(), ..Options::default() }).await;
    let first = make(&house, 0, "exit 0").await;
    ended(&house.client().await, &first.container).await;
    remove_pod(&house.client().await, &first.sandbox).await;
    let before = Traces::of(&house);
    (house, before)
}

fn sandbox_dir(house: &House, made: &Made) -> PathBuf {
    house.state().join("runtime/sandboxes").join(&made.sandbox)
}

fn container_dir(house: &House, made: &Made) -> PathBuf {
    house.state().join("runtime/containers").join(&made.container)
}

/// What a reboot does to what is in the kernel and in the run directory.
fn lose_all_but_the_state(house: &House) {
    end_monitors(&house.run());
    end_group(&house.cgroup);
    unmount_all(house);
    remove_tree(&house.run());
}

/// No mount is entered, whatever is below.
fn remove_tree(path: &Path) {
    let parent = kernel::Dir::open(path.parent().unwrap()).unwrap();
    parent.remove_tree(path.file_name().unwrap()).unwrap();
}

/// Everything mounted in the house, in its own namespace: none of it is on the host.
fn unmount_all(house: &House) {
    let table = MountTable::of(house.holder()).unwrap();
    for mount in table.under(&house.dir) {
        let done = house.inside(Path::new("umount")).arg("-l").arg(&mount.point).status().unwrap();
        assert!(done.success());
    }
    assert_eq!(MountTable::of(house.holder()).unwrap().under(&house.dir).count(), 0);
}

fn in_another_boot(path: &Path) {
    let boot = monitor::record::boot_id().unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(&boot));
    fs::write(path, text.replace(&boot, "00000000-0000-4000-8000-000000000000")).unwrap();
}

async fn listed(client: &Client) -> Vec<String> {
    let request = cri::ListPodSandboxRequest::default();
    let items = client.runtime().list_pod_sandbox(request).await.unwrap().into_inner().items;
    items.into_iter().map(|item| item.id).collect()
}

/// Somebody else's process.
struct Innocent(Child);

impl Innocent {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group of somebody else's, or of nobody's.
struct Elsewhere(String);

impl Elsewhere {
    fn make(path: &str, process: &Innocent) -> Self {
        let made = Self(path.to_owned());
        made.group().make().unwrap();
        made.group().add(process.0.id()).unwrap();
        made
    }

    fn group(&self) -> Group {
        Group::open(&Hierarchies::find().unwrap(), &self.0).unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        end_group(&self.0);
    }
}

async fn nothing_is_left(house: &House, before: &Traces) {
    let same = async || (Traces::of(house) == *before).then_some(());
    if tokio::time::timeout(std::time::Duration::from_secs(10), until("it is gone", same)).await.is_err() {
        assert_eq!(Traces::of(house), *before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_pods_are_shown_as_ended_and_can_be_removed() {
    let (mut house, before) = scene().await;
    let (runs, over) = (make(&house, 1, "sleep 1000").await, make(&house, 2, "exit 7").await);
    ended(&house.client().await, &over.container).await;
    house.kill();
    lose_all_but_the_state(&house);
    // In the next boot the same numbers are those of others.
    let mut innocent = Innocent::new();
    let id = ProcessId::of(innocent.0.id()).unwrap();
    let path = container_dir(&house, &runs).join("started.json");
    let mut started: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    started["pid"] = id.pid.into();
    started["startTime"] = id.start_time.into();
    fs::write(&path, started.to_string()).unwrap();
    for made in [&runs, &over] {
        in_another_boot(&sandbox_dir(&house, made).join("sandbox.json"));
        in_another_boot(&container_dir(&house, made).join("started.json"));
    }
    house.start().await;
    let client = house.client().await;
    for (made, code) in [(&runs, 255), (&over, 7)] {
        let found = sandbox_status(&client, &made.sandbox).await.unwrap();
        assert_eq!(found.state(), PodSandboxState::SandboxNotready);
        let found = status(&client, &made.container).await.unwrap();
        assert_eq!((found.state(), found.exit_code), (ContainerState::ContainerExited, code));
    }
    let leases = house.state().join("runtime/network/leases");
    assert_eq!(fs::read_dir(leases).unwrap().count(), 0, "addresses are free");
    for made in [&runs, &over] {
        remove_pod(&client, &made.sandbox).await;
    }
    nothing_is_left(&house, &before).await;
    assert!(innocent.lives(), "a process that has the number of one of another boot is killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_damaged_record_stood_for_is_ended_and_the_rest_goes_on() {
    let (mut house, before) = scene().await;
    let mut made = vec![];
    let given = Elsewhere(format!("{}-given", house.cgroup));
    given.group().make().unwrap();
    for (n, cgroup) in [(1, ""), (2, ""), (3, given.0.as_str()), (4, "")] {
        made.push(make_in(&house, n, "sleep 1000", cgroup).await);
    }
    assert_eq!(given.group().processes().unwrap().len(), 1);
    let [well, cut, newer, unclear] = &made[..] else { panic!() };
    house.kill();
    let damaged = [
        sandbox_dir(&house, cut).join("sandbox.json"),
        container_dir(&house, newer).join("container.json"),
        container_dir(&house, unclear).join("started.json"),
    ];
    let text = fs::read_to_string(&damaged[0]).unwrap();
    fs::write(&damaged[0], &text[..text.len() / 2]).unwrap();
    let text = fs::read_to_string(&damaged[1]).unwrap();
    fs::write(&damaged[1], text.replace("\"version\":1", "\"version\":\"one\"")).unwrap();
    fs::write(&damaged[2], "{").unwrap();
    let empty = "0123456789abcdef0123456789abcdef";
    for kind in ["sandboxes", "containers"] {
        fs::create_dir(house.state().join("runtime").join(kind).join(empty)).unwrap();
    }
    house.said.lock().unwrap().clear();
    house.start().await;
    let said = house.said.lock().unwrap().clone();
    for path in &damaged {
        let path = path.display().to_string();
        assert_eq!(said.iter().filter(|line| line.contains(&path)).count(), 1, "{path}: {said:#?}");
    }
    let client = house.client().await;
    let mut wanted = vec![well.sandbox.clone(), newer.sandbox.clone(), unclear.sandbox.clone()];
    let mut found = listed(&client).await;
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    let found = status(&client, &well.container).await.unwrap();
    assert_eq!(found.state(), ContainerState::ContainerRunning);
    let group = Group::open(&Hierarchies::find().unwrap(), &house.cgroup).unwrap();
    let left = group.processes().unwrap().len();
    assert_eq!(left, 1, "only what is seen runs");
    assert!(given.group().processes().unwrap().is_empty(), "nor is it elsewhere");
    for made in [well, newer, unclear] {
        remove_pod(&client, &made.sandbox).await;
    }
    // The records are kept for whoever wants to know, where nobody takes them for such.
    let aside = house.state().join("runtime/damaged");
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 3);
    remove_tree(&aside);
    nothing_is_left(&house, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_record_is_removed_and_what_is_not_ours_is_not() {
    let (mut house, before) = scene().await;
    // A neighbour with a server that was killed: it has directories and a control group of its own.
    let mut neighbour = House::open(Options::default()).await;
    let theirs =
        run_shell(&neighbour.client().await, &pod(&neighbour, "theirs"), "sleep 1000").await.unwrap();
    neighbour.kill();
    let (kept, lost) = (make(&house, 1, "sleep 1000").await, make(&house, 2, "sleep 1000").await);
    house.kill();
    house.said.lock().unwrap().clear();
    // All of a pod but its records, and groups of nobody's with somebody in them.
    remove_tree(&sandbox_dir(&house, &lost));
    remove_tree(&container_dir(&house, &lost));
    let nobodys = "fedcba9876543210fedcba9876543210";
    let (mut first, mut second) = (Innocent::new(), Innocent::new());
    let own = Elsewhere::make(&format!("{}/{nobodys}", house.cgroup), &first);
    let inside = Elsewhere::make(&format!("{}/{}/{nobodys}", house.cgroup, kept.sandbox), &second);
    // Not ours: a group and a directory with another kind of name, and a group like ours beside ours.
    let (mut third, mut fourth) = (Innocent::new(), Innocent::new());
    let other = Elsewhere::make(&format!("{}/other", house.cgroup), &third);
    let beside = Elsewhere::make(&format!("{}-beside/{nobodys}", house.cgroup), &fourth);
    let _parent = Elsewhere(format!("{}-beside", house.cgroup));
    let directory = house.run().join("sandboxes/other");
    fs::create_dir(&directory).unwrap();
    house.start().await;
    let client = house.client().await;
    assert_eq!(listed(&client).await, [kept.sandbox.as_str()]);
    let found = status(&client, &kept.container).await.unwrap();
    assert_eq!(found.state(), ContainerState::ContainerRunning);
    assert_eq!(monitors(&house.run().join("sandboxes")).len(), 1);
    assert!(!first.lives() && !own.group().exists(), "a group of nobody's");
    assert!(!second.lives() && !inside.group().exists(), "one inside of a pod's");
    assert!(third.lives() && other.group().exists(), "one that is not ours");
    assert!(fourth.lives() && beside.group().exists(), "one that is not even below ours");
    assert!(directory.exists());
    fs::remove_dir(&directory).unwrap();
    let said = house.said.lock().unwrap().clone();
    let parts = [
        format!("the namespaces of sandbox {}", lost.sandbox),
        format!("the network of sandbox {}", lost.sandbox),
        format!("the use of an image by container {}", lost.container),
        format!("control group {}", own.0),
        format!("control group {}", inside.0),
    ];
    for part in parts {
        let line = format!("removed {part}, which has no record");
        assert_eq!(said.iter().filter(|said| said.contains(&line)).count(), 1, "{line}: {said:#?}");
    }
    assert!(!said.iter().any(|line| line.contains(&kept.container) && line.contains("removed")), "{said:#?}");
    neighbour.start().await;
    let found = status(&neighbour.client().await, &theirs.1).await.unwrap();
    assert_eq!(found.state(), ContainerState::ContainerRunning, "a neighbour's pod");
    remove_pod(&neighbour.client().await, &theirs.0).await;
    drop((third, fourth, other, beside));
    remove_pod(&client, &kept.sandbox).await;
    nothing_is_left(&house, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_lost_its_namespaces_is_ended_and_shown_as_such() {
    let (mut house, before) = scene().await;
    let made = make(&house, 1, "sleep 1000").await;
    house.kill();
    unmount_all(&house);
    house.start().await;
    let client = house.client().await;
    let found = sandbox_status(&client, &made.sandbox).await.unwrap();
    assert_eq!(found.state(), PodSandboxState::SandboxNotready);
    let found = status(&client, &made.container).await.unwrap();
    assert_eq!((found.state(), found.exit_code), (ContainerState::ContainerExited, 137));
    remove_pod(&client, &made.sandbox).await;
    nothing_is_left(&house, &before).await;
}
