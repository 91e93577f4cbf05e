//! The walking skeleton, run as a user would run it. Needs root, runc and busybox-static.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use testkit::wait_until;

/// A directory for what the skeleton puts on disk, and for nothing else.
struct Ground {
    dir: TempDir,
    /// The ledger's own, so that a test leaves none on the machine.
    state: TempDir,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        // The container's root must be able to pass.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
        Self { dir, state: tempfile::tempdir().unwrap() }
    }

    fn skeleton(&self, args: &[&str]) -> Command {
        let mut command = Command::new(testkit::example("skeleton", env!("CARGO_MANIFEST_DIR")));
        command.args(args).arg("--state-dir").arg(self.state.path());
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null());
        command
    }

    fn run(&self) -> Output {
        self.skeleton(&[]).output().unwrap()
    }

    /// With a shell script in the place of runc.
    fn run_with_runc(&self, script: &str) -> Output {
        let tools = tempfile::tempdir().unwrap();
        let runc = tools.path().join("runc");
        fs::write(&runc, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&runc, Permissions::from_mode(0o755)).unwrap();
        let places = std::env::var_os("PATH").unwrap();
        let path =
            std::env::join_paths([tools.path().to_owned()].into_iter().chain(std::env::split_paths(&places)));
        self.skeleton(&[]).env("PATH", path.unwrap()).output().unwrap()
    }

    fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn is_bare(&self) {
        assert_eq!(self.entries(), Vec::<PathBuf>::new());
        self.has_no_mount_on_the_host();
    }

    fn has_no_mount_on_the_host(&self) {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!table.contains(self.dir.path().to_str().unwrap()), "{table}");
    }
}

/// A skeleton that waits for Enter, its container alive. Ended when dropped, also by a failing test.
struct Held {
    process: Child,
    report: String,
}

impl Held {
    fn start(ground: &Ground) -> Self {
        let mut command = ground.skeleton(&["--hold"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut held = Self { report: String::new(), process: command.spawn().unwrap() };
        // The call to look around is the last that it says.
        let errors = BufReader::new(held.process.stderr.take().unwrap());
        let last = errors.lines().map(Result::unwrap).find(|line| line.contains("look around"));
        assert!(last.is_some(), "the skeleton ended before it could be looked at");
        let output = BufReader::new(held.process.stdout.take().unwrap());
        for line in output.lines().map(Result::unwrap) {
            held.report.push_str(&line);
            held.report.push('\n');
            if line.ends_with("mount table shows nothing of it") {
                break;
            }
        }
        held
    }

    fn container(&self) -> u32 {
        container_in(&self.report)
    }

    fn cgroup_name(&self) -> String {
        format!("wardlet-skeleton-{}", self.process.id())
    }
}

impl Drop for Held {
    /// The container ends with the process that holds its input.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn container_in(report: &str) -> u32 {
    let (_, after) = report.split_once("OUTSIDE, process ").expect(report);
    after.lines().next().unwrap().trim().parse().unwrap()
}

/// The one cell of the report that follows `label` on its line.
fn row<'a>(report: &'a str, label: &str) -> &'a str {
    let line = report.lines().find(|line| line.trim_start().starts_with(label)).expect(report);
    line.trim_start().strip_prefix(label).unwrap().trim()
}

fn alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn cgroups(name: &str) -> Vec<PathBuf> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path());
    hierarchies
        .flat_map(|dir| [dir.join(name), dir.with_file_name(name)])
        .filter(|dir| dir.exists())
        .collect()
}

fn processes_about(name: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let about = |dir: &PathBuf| {
        fs::read(dir.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(name))
    };
    processes.filter(about).collect()
}

#[test]
fn a_run_shows_the_leased_map_and_leaves_nothing_behind() {
    let ground = Ground::new();
    let output = ground.run();
    let (report, words) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{report}{words}");

    let base = row(&report, "user IDs").split('-').next().unwrap();
    let map = format!("0 {base} 65536");
    assert_eq!(row(&report, "uid_map").matches(&map).count(), 2, "{report}");
    assert_eq!(row(&report, "gid_map").matches(&map).count(), 2, "{report}");
    assert!(row(&report, "runs as").ends_with(&format!("{base}:{base}")), "{report}");
    assert!(row(&report, "/data/of-1000").contains("1000:1000 "), "{report}");
    assert!(!report.contains("WRONG"), "{report}");

    let name = words.split_whitespace().find(|word| word.starts_with("wardlet-skeleton-")).unwrap();
    ground.is_bare();
    assert!(!alive(container_in(&report)));
    assert_eq!(cgroups(name), Vec::<PathBuf>::new());
    assert_eq!(processes_about(name), Vec::<PathBuf>::new());
}

#[test]
fn killed_half_way_it_leaves_no_mount_and_no_process_and_the_next_run_removes_the_rest() {
    let ground = Ground::new();
    let mut held = Held::start(&ground);
    let (container, name) = (held.container(), held.cgroup_name());
    assert!(alive(container));
    assert_ne!(cgroups(&name), Vec::<PathBuf>::new());
    ground.has_no_mount_on_the_host();

    held.process.kill().unwrap();
    held.process.wait().unwrap();
    ground.has_no_mount_on_the_host();
    wait_until("the container ends with its maker", || !alive(container));
    wait_until("runc ends with its container", || processes_about(&name).is_empty());
    assert_eq!(cgroups(&name), Vec::<PathBuf>::new());

    assert_eq!(ground.entries().len(), 1);
    let next = ground.run();
    assert!(next.status.success(), "{next:?}");
    ground.is_bare();
}

#[test]
fn interrupted_it_cleans_up_before_it_ends() {
    let ground = Ground::new();
    let mut held = Held::start(&ground);
    let (container, name) = (held.container(), held.cgroup_name());
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", held.process.id())]).status().unwrap();
    assert!(kill.success());
    assert_eq!(held.process.wait().unwrap().code(), Some(1));
    ground.is_bare();
    assert!(!alive(container));
    assert_eq!(cgroups(&name), Vec::<PathBuf>::new());
}

#[test]
fn a_runtime_that_fails_is_quoted_and_nothing_is_left() {
    let ground = Ground::new();
    let output = ground.run_with_runc("echo 'no luck today' >&2; exit 3");
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("error: the container ended too early: no luck today"), "{words}");
    ground.is_bare();
}

#[test]
fn a_map_that_is_not_the_leased_one_is_found_out() {
    let ground = Ground::new();
    let narrow = r#"sed -i 's/"size": 65536/"size": 2000/' "$TMPDIR"/*/config.json 2>/dev/null; exec /usr/sbin/runc "$@""#;
    let output = ground.run_with_runc(narrow);
    let (report, words) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{report}{words}");
    assert!(row(&report, "WRONG").starts_with("the namespace maps just the leased block"), "{report}");
    assert!(words.contains("error: does not hold: the namespace maps just the leased block"), "{words}");
    ground.is_bare();
}

#[test]
fn a_directory_that_the_container_cannot_pass_is_named() {
    let ground = Ground::new();
    fs::set_permissions(ground.dir.path(), Permissions::from_mode(0o700)).unwrap();
    let output = ground.run();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains(ground.dir.path().to_str().unwrap()) && words.contains("0700"), "{words}");
    ground.is_bare();
}
