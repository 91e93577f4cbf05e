//! What is done as soon as a process has ended: by a process that has nothing of it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "AFTERWARDS_ROLE";
const DIR: &str = "AFTERWARDS_DIR";

/// This very program in one of the roles below.
fn words() -> Vec<OsString> {
    let own = std::env::current_exe().unwrap();
    vec![own.into(), "--exact".into(), "afterwards::one_in_a_role".into(), "--nocapture".into()]
}

/// Nothing by itself: what the programs do that the tests start.
#[test]
fn one_in_a_role() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    if role == "after" {
        return tell(&dir);
    }
    // Others are at work in the same memory, as they may be in a program.
    let busy = std::thread::spawn(|| (0..20_000).map(|n| vec![0u8; n % 90].len()).sum::<usize>());
    let mut environment: Vec<_> = std::env::vars_os().filter(|(name, _)| name != ROLE).collect();
    environment.push((ROLE.into(), "after".into()));
    kernel::afterwards(&words(), &environment).unwrap();
    let ours = (0..20_000).map(|n| vec![0u8; n % 90].len()).sum::<usize>();
    assert_eq!(busy.join().unwrap(), ours);
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let children: String =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap()).collect();
    fs::write(dir.join("children"), children).unwrap();
    fs::rename(dir.join("children"), dir.join("left")).unwrap();
    match role.to_str().unwrap() {
        "ends" => {}
        "becomes" => panic!("{}", Command::new("sleep").arg("60").exec()),
        "stays" => std::thread::sleep(Duration::from_secs(60)),
        other => panic!("{other}"),
    }
}

/// Writes down what whoever was left behind has.
fn tell(dir: &Path) {
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|fd| fs::read_link(fd.unwrap().path()));
    let open: Vec<_> = open.filter_map(|link| Some(link.ok()?.display().to_string())).collect();
    let here = std::env::current_dir().unwrap().display().to_string();
    let session = rustix::process::getsid(None).unwrap() == rustix::process::getpid();
    let policy = || {
        let text = fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The 41st of all; those behind the name begin with the third.
        text.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().to_owned()
    };
    let before = policy();
    kernel::as_others();
    fs::write(dir.join("policies"), format!("{before} {}", policy())).unwrap();
    fs::write(dir.join("new"), format!("{here} {session} {}", open.join(" "))).unwrap();
    fs::rename(dir.join("new"), dir.join("told")).unwrap();
}

struct Left {
    dir: tempfile::TempDir,
    child: Child,
}

impl Left {
    /// Somebody in this role, who has left one behind.
    fn by(role: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (words, secret) = (words(), fs::File::create(dir.path().join("secret")).unwrap());
        let mut command = Command::new(words.first().unwrap());
        command.args(words.get(1..).unwrap()).env(ROLE, role).env(DIR, dir.path());
        let child = command.current_dir(dir.path()).stdin(secret).stdout(Stdio::null()).spawn().unwrap();
        let left = Self { dir, child };
        left.soon("left");
        left
    }

    fn soon(&self, file: &str) -> String {
        let (deadline, path) = (Instant::now() + Duration::from_secs(20), self.dir.path().join(file));
        while !path.exists() {
            assert!(Instant::now() < deadline, "not within 20 s: {file}");
            std::thread::sleep(Duration::from_millis(2));
        }
        fs::read_to_string(path).unwrap()
    }

    /// The one who was left behind: another process with the same words and the same memory.
    fn behind(&self) -> rustix::process::Pid {
        let numbers =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let others =
            numbers.filter_map(|name| name.parse::<u32>().ok()).filter(|pid| *pid != self.child.id());
        let mut found = others.filter(|pid| kernel::share_memory(self.child.id(), *pid));
        let (one, more) = (found.next().unwrap(), found.next());
        assert_eq!(more, None);
        rustix::process::Pid::from_raw(one.cast_signed()).unwrap()
    }

    fn is_told(&self) -> bool {
        self.dir.path().join("told").exists()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn it_is_done_by_one_who_has_nothing_of_the_process_and_is_no_child_of_it() {
    let mut left = Left::by("ends");
    assert_eq!(left.soon("left"), "");
    assert!(left.child.wait().unwrap().success());
    let told = left.soon("told");
    // The directory that it was reading is one more.
    let own =
        told.strip_prefix("/ true /dev/null /dev/null /dev/null /proc/").unwrap_or_else(|| panic!("{told}"));
    assert!(!own.contains(' '), "{told}");
    // SCHED_IDLE, and SCHED_OTHER.
    assert_eq!(left.soon("policies"), "5 0");
}

#[test]
fn it_is_done_when_the_program_has_ended_that_the_process_has_become() {
    let mut left = Left::by("becomes");
    let name = PathBuf::from(format!("/proc/{}/comm", left.child.id()));
    while fs::read_to_string(&name).unwrap() != "sleep\n" {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(!left.is_told());
    left.child.kill().unwrap();
    left.child.wait().unwrap();
    left.soon("told");
}

#[test]
fn who_waits_is_not_kept_from_it_by_a_signal_that_asks_it_to_end() {
    let mut left = Left::by("stays");
    let waits = left.behind();
    rustix::process::kill_process(waits, rustix::process::Signal::TERM).unwrap();
    left.child.kill().unwrap();
    left.child.wait().unwrap();
    left.soon("told");
}

#[test]
fn it_is_done_when_the_process_is_killed_and_not_before() {
    let mut left = Left::by("stays");
    std::thread::sleep(Duration::from_millis(100));
    assert!(!left.is_told());
    left.child.kill().unwrap();
    left.child.wait().unwrap();
    left.soon("told");
}
