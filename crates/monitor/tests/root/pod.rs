//! What needs root: memory that runs out, a full disk, other users, a shared PID namespace.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use monitor::{Client, Ending, Error, ProcessId, Reply, Request, SharedPid};
use rustix::process::Uid;
use support::*;

/// A control group of our own with little memory, removed when dropped.
struct Group {
    dir: PathBuf,
    path: String,
}

impl Group {
    fn new(name: &str) -> Self {
        let path = format!("/wardlet-monitor-test-{}-{name}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let root = if version_1.is_dir() { version_1 } else { Path::new("/sys/fs/cgroup") };
        let dir = root.join(path.trim_start_matches('/'));
        fs::create_dir(&dir).unwrap();
        let limit = if version_1.is_dir() { "memory.limit_in_bytes" } else { "memory.max" };
        let group = Self { dir, path };
        fs::write(group.dir.join(limit), "16777216").unwrap();
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..500 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} is left", self.dir.display());
    }
}

#[test]
fn an_end_for_want_of_memory_is_told_as_such() {
    let group = Group::new("oom");
    let pod = Pod::new();
    let mut client = pod.spawn();
    let join = format!("echo $$ > {:?}", group.dir.join("cgroup.procs"));
    // The whole of what has no line ends is kept in memory.
    pod.container_in_group("one", &format!("{join}; exec tail -n 1 /dev/zero"), &group.path);
    start(&mut client, pod.request("one"));
    let exit = next_exit(&mut client).exit;
    assert_eq!((exit.ending, exit.oom), (Ending::Signal(9), true));
    assert_eq!(pod.exit("one"), Some(exit));
    // What was counted before is not this container's.
    pod.container_in_group("two", &format!("{join}; exit 1"), &group.path);
    start(&mut client, pod.request("two"));
    let exit = next_exit(&mut client).exit;
    assert_eq!((exit.ending, exit.oom), (Ending::Code(1), false));
}

/// Records and log are on one small disk, which the container fills to the last byte.
#[test]
fn an_end_is_recorded_on_a_disk_that_is_full() {
    let pod = Pod::new();
    let disk = pod.path("containers");
    fs::create_dir(&disk).unwrap();
    kernel::in_private_mount_namespace(|_| {
        let words = ["-t", "tmpfs", "-o", "size=1m", "none"];
        assert!(Command::new("mount").args(words).arg(&disk).status().unwrap().success());
        let mut client = pod.spawn();
        let dir = pod.container("one", "cat /dev/zero > filler; echo lost; yes | head -c 100000; exit 21");
        start(&mut client, monitor::StartRequest { log: Some(dir.join("log")), ..pod.request("one") });
        let exit = next_exit(&mut client).exit;
        assert_eq!(exit.ending, Ending::Code(21));
        let message = exit.message.clone().unwrap();
        assert!(message.contains("bytes of the log were not written: No space left"), "{message}");
        assert!(fs::write(dir.join("more"), [0; 8192]).is_err(), "the disk is not full");
        assert_eq!(pod.exit("one"), Some(exit));
        // Another one cannot begin, and says so.
        let dir = pod.container_dir("two");
        let made = fs::create_dir(&dir).and_then(|()| fs::write(dir.join("job.json"), "{}"));
        println!("on the full disk: {made:?}");
        done(&mut client, &Request::Forget { container: "one".to_owned() });
        done(&mut client, &Request::End);
    })
    .unwrap();
}

/// Even where file modes would let it in.
#[test]
fn another_user_is_not_served() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(pod.dir().parent().unwrap());
    open(pod.dir());
    open(&socket(pod.dir()));
    let other = std::thread::scope(|scope| {
        let connect = || {
            // This thread alone becomes another user, and ends.
            let nobody = Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            Client::connect(pod.dir()).and_then(|mut client| client.call(&Request::List, &[]))
        };
        scope.spawn(connect).join().unwrap()
    });
    assert!(matches!(other, Err(Error::Gone { .. })), "{other:?}");
    assert_eq!(list(&mut client), []);
}

fn shared(client: &mut Client) -> Option<u32> {
    match client.call(&Request::PidNamespace, &[]).unwrap() {
        Reply::PidNamespace { pid } => pid,
        other => panic!("{other:?}"),
    }
}

fn namespace(pid: u32, kind: &str) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap()
}

#[test]
fn a_shared_pid_namespace_outlives_the_monitor_and_ends_with_the_pod() {
    let pod = Pod::with_shared_pid(SharedPid::Host);
    let mut client = pod.spawn();
    let pid = shared(&mut client).unwrap();
    assert_ne!(namespace(pid, "pid"), namespace(std::process::id(), "pid"));
    let init = ProcessId::of(pid).unwrap();
    // All containers of the pod see it: what it runs from must not be theirs to overwrite.
    let program = PathBuf::from(format!("/proc/{pid}/exe"));
    let changed = fs::set_permissions(&program, program.metadata().unwrap().permissions()).unwrap_err();
    assert_eq!(changed.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    pod.kill_monitor();
    let mut client = pod.spawn();
    assert_eq!(shared(&mut client), Some(pid), "the next monitor finds it");
    done(&mut client, &Request::End);
    wait_until("it ends with the pod", || state(init).is_none());
}

#[test]
fn a_shared_pid_namespace_that_has_ended_is_not_named() {
    let pod = Pod::with_shared_pid(SharedPid::Host);
    let mut client = pod.spawn();
    let init = ProcessId::of(shared(&mut client).unwrap()).unwrap();
    kill(init);
    wait_until("it is buried", || state(init).is_none());
    assert_eq!(shared(&mut client), None);
}

/// Ended when dropped.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_shared_pid_namespace_belongs_to_the_pods_users() {
    let sleeper = Sleeper(Command::new("unshare").args(["-U", "sleep", "1000"]).spawn().unwrap());
    let pid = sleeper.0.id();
    let own = namespace(std::process::id(), "user");
    wait_until("it is in its own user namespace", || namespace(pid, "user") != own);
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{map}"), "0 1900544000 65536").unwrap();
    }
    let pod = Pod::with_shared_pid(SharedPid::Userns(format!("/proc/{pid}/ns/user").into()));
    let init = shared(&mut pod.spawn()).unwrap();
    assert_eq!(namespace(init, "user"), namespace(pid, "user"));
    assert_ne!(namespace(init, "pid"), namespace(std::process::id(), "pid"));
}

#[test]
fn without_a_user_namespace_there_is_no_monitor() {
    let pod = Pod::with_shared_pid(SharedPid::Userns("/nowhere".into()));
    let error = pod.launch.spawn().unwrap_err().to_string();
    assert!(error.contains("cannot open user namespace /nowhere"), "{error}");
    let pod = Pod::new();
    assert_eq!(shared(&mut pod.spawn()), None);
}
