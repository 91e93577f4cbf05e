//! A container that writes without end fills the node's disk with its log, and one that fails then fills the memory of
//! the process that looks for its last lines: by `wardlet run`, on each runtime.

use crate::run_support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use run_support::{Node, Running, text};

/// In bytes, of each container's log files together.
const MOST_ON_DISK: u64 = 40 << 20;
/// In kilobytes: the built-in runtime is in the same process.
const MOST_MEMORY: u64 = 160 << 10;

/// 100 MB in 200 bursts, a number at the begin of each line, and then a failure without last words.
const FLOOD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: flood}
spec:
  hostUsers: USERS
  restartPolicy: Never
  containers:
  - name: app
    image: IMAGE
    terminationMessagePolicy: FallbackToLogsOnError
    command: [sh, -c]
    args:
    - |
      i=0
      while [ $i -lt 200 ]; do
        yes "$i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" | head -c 500000
        i=$((i + 1))
        sleep 0.02
      done
      echo; echo the end
      exit 3
"#;

fn size(dir: &Path) -> (u64, usize) {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    (sizes.iter().sum(), sizes.len())
}

/// The most memory that the process has had, in kilobytes.
fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn logs(node: &Node) -> Option<PathBuf> {
    let pods = std::fs::read_dir(node.path("state/logs")).ok()?.flatten().next()?;
    Some(pods.path().join("app"))
}

fn a_flood_stays_within_its_limits(node: &Node, users: &str) {
    let file = node.manifest("pod.yaml", &FLOOD.replace("USERS", users));
    let limits = ["--container-log-max-size=4Mi", "--container-log-max-files=3", "--rm=false"];
    let out = std::fs::File::create(node.path("out")).unwrap();
    let mut command = node.run(&[&limits[..], &[file.to_str().unwrap()]].concat());
    let mut running = Running(Some(command.stdout(out).spawn().unwrap()));
    let child = running.0.as_mut().unwrap();
    let (mut disk, mut memory, mut files) = (0, 0, 0);
    while child.try_wait().unwrap().is_none() {
        let (bytes, count) = logs(node).map_or((0, 0), |dir| size(&dir));
        (disk, files) = (disk.max(bytes), files.max(count));
        memory = memory.max(most_memory(child.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = running.0.take().unwrap().wait_with_output().unwrap();
    let all = text(&output);
    println!("{disk} bytes in {files} files, {memory} kB");
    assert_eq!(output.status.code(), Some(3), "{all}");
    assert!((4 << 20..MOST_ON_DISK).contains(&disk), "{disk} bytes of logs: {all}");
    assert!((2..=3).contains(&files), "{files} files");
    assert!((1..MOST_MEMORY).contains(&memory), "{memory} kB");

    // Followed over all rotations, nothing is lost or doubled.
    let followed = std::fs::read_to_string(node.path("out")).unwrap();
    let numbers = followed
        .lines()
        .filter_map(|line| line.strip_prefix("flood/app | ")?.split(' ').next()?.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    assert!(
        numbers.is_sorted() && numbers.first() == Some(&0) && numbers.last() == Some(&199),
        "out of order"
    );
    assert!(followed.len() > 100_000_000, "{} bytes", followed.len());
    assert!(followed.trim_end().ends_with("flood/app | the end"));

    let ended = node.json(&["ps"])[0]["status"]["containers"][0]["state"]["terminated"].clone();
    let words = ended["message"].as_str().unwrap_or_default();
    assert!(words.ends_with("the end\n") && words.len() <= 2048, "{ended}");
    let shown = node.command(&["logs", "flood"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.ends_with("the end\n") && shown.len() > 4 << 20, "{} bytes", shown.len());
    let places = node.places();
    let words: Vec<&str> = ["stop", "flood"].into_iter().chain(places.iter().map(String::as_str)).collect();
    let stop = node.command(&words).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

#[test]
fn a_container_cannot_fill_disk_and_memory_with_its_log_on_the_built_in_runtime() {
    let node = Node::built_in();
    for users in ["true", "false"] {
        a_flood_stays_within_its_limits(&node, users);
    }
}

#[test]
fn a_container_cannot_fill_disk_and_memory_with_its_log_on_containerd() {
    let node = Node::new();
    a_flood_stays_within_its_limits(&node, "false");
}

/// Of a container that fails again and again only the last two instances' logs are kept.
#[test]
fn a_container_cannot_fill_the_disk_by_failing() {
    let node = Node::built_in();
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: fails}\nspec:\n  hostUsers: false\n  containers:\n  - {name: app, image: IMAGE, command: [sh, -c, \"yes | head -c 100000; exit 1\"]}\n";
    let file = node.manifest("pod.yaml", text);
    let _running = Running(Some(node.run(&["--quiet", file.to_str().unwrap()]).spawn().unwrap()));
    let restarts = || node.json(&["ps"])[0]["status"]["containers"][0]["restarts"].as_u64().unwrap_or(0);
    node.await_that("three restarts", || restarts() >= 3);
    node.await_that("the oldest log goes", || {
        let left = logs(&node).map(|dir| size(&dir)).unwrap_or_default();
        left.1 <= 3 && left.1 > 0 && logs(&node).is_some_and(|dir| !dir.join("0.log").exists())
    });
}
