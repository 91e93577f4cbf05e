//! What has no record is removed at the start of `wardlet run`, and what others have is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ids::pool::IdPool;
use ids::witness::{Sighting, Witness, WitnessError};
use ids::{BlockLength, IdMapping};
use ledger::{BootId, Holder, LeaseRequest, Ledger, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::foreign::Foreign;
use crate::machine::{Lan, Machine, Running, pod, text};

const SLEEPS: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
const NEVER: &str = "  restartPolicy: Never\n";
const VOLUMES: &str = "  volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]\n";

/// The run directory of a machine's runtime.
fn run_dir(machine: &Machine<'_>) -> PathBuf {
    node::Instance::of(&machine.path("state")).run_dir()
}

/// The machine's runtime, served beside all runs, and another client of it. The run directory and the socket follow
/// the state directory.
fn serve(machine: &Machine<'_>) -> (Running, Foreign) {
    let server = machine.start(&["cri", &format!("--programs={}", testkit::programs().display())]);
    let client = Foreign::connect(&run_dir(machine).join("cri.sock"));
    (server, client)
}

fn job(machine: &Machine<'_>) -> String {
    machine.manifest("job.yaml", &pod("job", "exit 0", NEVER))
}

/// Runs a pod, kills the process that manages it, and returns its UID.
fn left(machine: &Machine<'_>, name: &str, more: &str) -> String {
    let file = machine.manifest(&format!("{name}.yaml"), &pod(name, SLEEPS, more));
    let run = machine.start(&["run", &file]);
    let uid = machine.await_phase(name, "Running")["uid"].as_str().unwrap().to_owned();
    drop(run);
    uid
}

fn dir(machine: &Machine<'_>, uid: &str) -> PathBuf {
    machine.path("state/pods").join(uid)
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The holders of leases, with the state of each.
fn leases(machine: &Machine<'_>) -> Vec<(String, String)> {
    let output = machine.output(&["ids", "list", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |lease: &Value, key: &str| lease[key].as_str().unwrap_or_default().to_owned();
    let listed = listed.as_array().unwrap().iter();
    listed.map(|lease| (word(lease, "holder"), word(lease, "state"))).collect()
}

fn has_lease(machine: &Machine<'_>, holder: &str) -> bool {
    leases(machine).contains(&(holder.to_owned(), "leased".to_owned()))
}

fn mounts_below(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dir = dir.display().to_string();
    table.lines().filter(|line| line.contains(&dir)).map(str::to_owned).collect()
}

#[test]
fn a_pod_without_a_record_is_removed_and_those_of_others_go_on() {
    let lan = Lan::new();
    let (machine, neighbour) = (Machine::new(&lan), Machine::new(&lan));
    let beside = neighbour.manifest("web.yaml", &pod("web", SLEEPS, ""));
    neighbour.done(&["run", "-d", &beside]);
    let (_server, mut foreign) = serve(&machine);
    foreign.make("foreign-1");
    let lost = left(&machine, "lost", VOLUMES);
    // One whose process was killed, but which has its record: it goes on.
    let kept = left(&machine, "kept", "");
    machine.done(&["ids", "lease", "by-hand"]);
    assert_eq!(mounts_below(&dir(&machine, &lost)).len(), 1, "the volume in memory");
    let logs = machine.path(&format!("state/logs/default_lost_{lost}"));
    assert!(logs.exists() && has_lease(&machine, &lost));
    // As a damaged disk or an administrator leaves it.
    for name in ["agent.json", "status.json", "agent.lock"] {
        fs::remove_file(dir(&machine, &lost).join(name)).unwrap();
    }

    let said = machine.done(&["run", &job(&machine)]);
    let line = said.lines().find(|line| line.contains(&lost)).unwrap_or_else(|| panic!("{said}"));
    for part in ["1 container", "1 sandbox", "volumes", "logs", "lease", "default/lost", "no record"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!said.contains(&kept) && !said.contains("foreign"), "{said}");
    let expected = [format!("{kept} default/kept"), "foreign-1 kube-system/foreign".to_owned()];
    let mut found = foreign.pods();
    found.retain(|pod| !pod.ends_with("default/job"));
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(foreign.ready().len(), 2);
    assert_eq!(entries(&machine.path("state/pods")), [kept.as_str()]);
    assert_eq!(mounts_below(&dir(&machine, &lost)), Vec::<String>::new());
    assert!(!logs.exists());
    assert!(!has_lease(&machine, &lost), "{:?}", leases(&machine));
    assert!(has_lease(&machine, &kept) && has_lease(&machine, "by-hand"));
    assert_eq!(neighbour.pods()[0]["phase"], "Running");
    neighbour.done(&["exec", "web", "--", "true"]);
    // There is nothing to say the next time.
    let said = machine.done(&["run", &job(&machine)]);
    assert!(!said.contains("record"), "{said}");
}

/// Its sandbox was removed with the pod's.
#[test]
fn stop_leaves_a_sandbox_that_another_client_made_with_the_same_uid() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let (_server, mut foreign) = serve(&machine);
    let own = pod("web", SLEEPS, "")
        .replace("{name: web}", "{name: web, uid: 5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c113}");
    let run = machine.start(&["run", &machine.manifest("web.yaml", &own)]);
    machine.await_phase("web", "Running");
    let theirs = foreign.make("5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c113");
    assert_eq!(foreign.list().len(), 2);
    machine.done(&["exec", "web", "--", "true"]);
    machine.done(&["stop", "web"]);
    drop(run);
    assert_eq!(foreign.ready(), [theirs]);
    assert!(machine.pods().is_empty() && !has_lease(&machine, "5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c113"));
}

/// A process was killed after it had removed the record and before it removed the directory, or before it wrote the
/// record. `stop --all` found no pod, and the directory stayed for ever.
#[test]
fn directories_of_pods_that_were_being_removed_are_removed_by_the_next_stop() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    for (uid, file) in [("locked", Some("agent.lock")), ("empty", None), ("begun", Some("agent.new"))] {
        fs::create_dir_all(dir(&machine, uid)).unwrap();
        if let Some(file) = file {
            fs::write(dir(&machine, uid).join("agent.lock"), "").unwrap();
            fs::write(dir(&machine, uid).join(file), "").unwrap();
        }
    }
    fs::create_dir_all(dir(&machine, "foreign")).unwrap();
    fs::write(dir(&machine, "foreign").join("file"), "x").unwrap();
    machine.done(&["stop", "--all"]);
    assert_eq!(entries(&machine.path("state/pods")), ["foreign"]);
}

/// Ends all processes of the machine's pods, the monitors first: they record no exit in a reboot either.
fn end_processes(machine: &Machine<'_>) {
    for entry in fs::read_dir(run_dir(machine).join("sandboxes")).unwrap().flatten() {
        let record: Value =
            serde_json::from_slice(&fs::read(entry.path().join("monitor.json")).unwrap()).unwrap();
        let pid = record["pid"].as_i64().unwrap();
        assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim(), "wardlet-monitor");
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    }
    let cgroup = node::Instance::of(&machine.path("state")).cgroup();
    cgroups::Group::open(&cgroups::Hierarchies::find().unwrap(), &cgroup).unwrap().kill_all().unwrap();
}

/// As a reboot does: all processes end, and records are of another boot.
fn reboot(machine: &Machine<'_>) {
    end_processes(machine);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let runtime = machine.path("state/runtime");
    let records = [("sandboxes", "sandbox.json"), ("containers", "started.json")];
    for (kind, record) in records {
        for entry in fs::read_dir(runtime.join(kind)).unwrap().flatten() {
            let path = entry.path().join(record);
            let Ok(found) = fs::read_to_string(&path) else { continue };
            assert!(found.contains(boot.trim()));
            fs::write(&path, found.replace(boot.trim(), "00000000-0000-4000-8000-000000000000")).unwrap();
        }
    }
}

/// `wardlet ids gc --earlier-boots` was needed for the second.
#[test]
fn after_a_reboot_a_recorded_pod_gets_its_block_again_and_the_rest_is_released() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let (kept, lost) = (left(&machine, "kept", VOLUMES), left(&machine, "lost", VOLUMES));
    let of = |name: &str| machine.pods().into_iter().find(|pod| pod["name"] == name).unwrap();
    let block = of("kept")["uidMappings"].clone();
    reboot(&machine);
    fs::remove_file(dir(&machine, &lost).join("agent.json")).unwrap();
    let said = machine.done(&["run", "-d", machine.path("kept.yaml").to_str().unwrap()]);
    assert!(said.contains(&format!("default/lost ({lost})")), "{said}");
    let again = machine.await_phase("kept", "Running");
    assert_eq!((again["uid"].as_str(), &again["uidMappings"]), (Some(kept.as_str()), &block));
    assert_eq!(entries(&machine.path("state/pods")), [kept.as_str()]);
    assert!(has_lease(&machine, &kept) && !has_lease(&machine, &lost), "{:?}", leases(&machine));
    let runs = || machine.output(&["exec", "kept", "--", "true"]).status.success();
    testkit::wait_until("a new container of it runs", runs);
}

/// Sees no use of any ID.
struct Vacant;

impl Witness for Vacant {
    fn look(&self) -> Result<Sighting, WitnessError> {
        Ok(Sighting::new(Vec::new(), Vec::new()))
    }

    fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        Ok(Vec::new())
    }
}

/// Of a pod whose directory is gone altogether, only the ledger knows.
#[test]
fn leases_of_earlier_boots_are_released_where_they_are_of_pods_without_a_record() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let state = machine.path("state");
    {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let boot = BootId("earlier".to_owned());
        let ledger = Ledger::open(Options::new(&state, pool, boot, Arc::new(Vacant))).unwrap();
        for (holder, place) in [("gone", state.join("pods/gone")), ("by-hand", PathBuf::from("/srv/by-hand"))]
        {
            let request = LeaseRequest::new(Holder::new(holder).unwrap());
            ledger.lease(LeaseRequest { places: vec![place], ..request }).unwrap();
        }
    }
    let said = machine.done(&["run", &job(&machine)]);
    assert!(said.contains("removed the lease of host IDs of pod gone"), "{said}");
    assert!(has_lease(&machine, "by-hand"), "{:?}", leases(&machine));
    // Draining where another instance on this host uses the block.
    assert!(!leases(&machine).iter().any(|(holder, state)| holder == "gone" && state == "leased"));
}

/// A process was killed while it tried a pod's volumes: the pin kept the pod's block in use.
#[test]
fn a_user_namespace_that_was_pinned_without_a_record_goes_with_its_pod() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let uid = left(&machine, "web", "");
    let record: Value =
        serde_json::from_slice(&fs::read(dir(&machine, &uid).join("agent.json")).unwrap()).unwrap();
    let mappings = |key: &str| -> Vec<IdMapping> { serde_json::from_value(record[key].clone()).unwrap() };
    let maps = kernel::IdMaps::new(&mappings("uids"), &mappings("gids"));
    let pins = run_dir(&machine).join("userns");
    drop(kernel::UsernsCache::pinned_in(&pins).get(&maps).unwrap());
    assert_eq!(entries(&pins).len(), 1);
    let stopped = machine.output(&["stop", "web"]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    assert_eq!(entries(&pins), Vec::<String>::new());
}

/// Anything below `logs` whose name has two underscores was taken for the logs of a pod and deleted, through links and mounts.
#[test]
fn directories_that_only_look_like_logs_of_a_pod_are_left() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let kept = machine.path("state/logs/my_old_backup");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("file"), "kept").unwrap();
    let job = pod("job", "exit 0", "  restartPolicy: Never\n");
    machine.done(&["run", &machine.manifest("job.yaml", &job)]);
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
}

/// A mount that ends with the test.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn at(dir: PathBuf) -> Self {
        fs::create_dir(&dir).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "wardlet-test"]).arg(&dir).status().unwrap();
        assert!(done.success());
        Self(dir)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Logs of a pod without a record were deleted as host root through a link or a mount below them.
#[test]
fn what_is_behind_a_link_or_a_mount_in_the_logs_of_a_pod_without_a_record_is_left() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let (_server, _foreign) = serve(&machine);
    let outside = machine.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "kept").unwrap();
    let lost = ["linked", "mounted"].map(|name| (name, left(&machine, name, "")));
    let lost = lost.map(|(name, uid)| {
        for name in ["agent.json", "status.json", "agent.lock"] {
            fs::remove_file(dir(&machine, &uid).join(name)).unwrap();
        }
        machine.path(&format!("state/logs/default_{name}_{uid}"))
    });
    let [linked, mounted] = &lost;
    std::os::unix::fs::symlink(&outside, linked.join("link")).unwrap();
    let tmpfs = Tmpfs::at(mounted.join("mount"));
    fs::write(tmpfs.0.join("file"), "kept").unwrap();

    let said = machine.done(&["run", &job(&machine)]);
    assert!(!linked.exists(), "{said}");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(tmpfs.0.join("file")).unwrap(), "kept", "{said}");
    assert!(said.contains(&tmpfs.0.display().to_string()), "the mount in the way is named: {said}");
    drop(tmpfs);
    machine.done(&["run", &job(&machine)]);
    assert!(!mounted.exists(), "it is removed once the mount is gone");
}
