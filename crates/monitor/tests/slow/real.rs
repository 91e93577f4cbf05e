//! Real containers, started by `wardlet-container` with each engine that this machine has. Needs root and a
//! static busybox.

use crate::support;

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use monitor::{Attach, Client, Ending, Reply, Request, StartRequest, Started, Stdin};
use serde_json::{Value, json};
use support::*;

/// The first host ID of the maps that are used here.
const BASE: u32 = 1_910_571_008;

fn container_program() -> PathBuf {
    testkit::programs().join("wardlet-container")
}

fn engines() -> Vec<Value> {
    let runc = Path::new("/usr/sbin/runc");
    let mut engines = vec![json!("libcontainer")];
    if runc.exists() {
        engines.push(json!({"oci": {"path": runc, "args": []}}));
    }
    engines
}

/// A pod whose containers are real. What is left of them is taken away when it is dropped.
struct RealPod {
    pod: Pod,
    made: std::cell::RefCell<Vec<PathBuf>>,
}

impl RealPod {
    fn new() -> Self {
        let mut pod = Pod::new();
        pod.launch.container_program = container_program().to_owned();
        // The container's root must be able to come to its files.
        fs::set_permissions(pod.path(""), fs::Permissions::from_mode(0o711)).unwrap();
        Self { pod, made: std::cell::RefCell::default() }
    }

    fn start(
        &self,
        client: &mut Client,
        engine: &Value,
        name: &str,
        change: impl FnOnce(&mut Value, &mut StartRequest),
    ) {
        let mut job = self.job(engine, name);
        let mut request = self.pod.request(name);
        change(&mut job, &mut request);
        let dir = self.pod.container_dir(name);
        fs::write(dir.join("job.json"), job.to_string()).unwrap();
        self.made.borrow_mut().push(dir);
        start(client, request);
    }

    /// A container of its own users.
    fn job(&self, engine: &Value, name: &str) -> Value {
        let dir = |path: String| {
            let path = self.pod.path(&path);
            fs::create_dir_all(&path).unwrap();
            path
        };
        dir(format!("containers/{name}"));
        let layer = layer(&dir("layer".to_owned()));
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let id = format!("wm{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let new = |filesystem: &str, target: &str, options: &[&str]| json!({"new": {"filesystem": filesystem, "target": target, "options": options}});
        json!({
            "version": 1,
            "engine": engine,
            "runDir": dir(format!("run/{name}")),
            "start": {
                "id": id,
                "rootfs": {
                    "lowers": [layer], "upper": dir(format!("{name}/upper")),
                    "work": dir(format!("{name}/work")), "readOnly": false, "owners": "idmap",
                },
                "mounts": [
                    new("proc", "/proc", &["nosuid", "noexec", "nodev"]),
                    new("tmpfs", "/dev", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
                    new("devpts", "/dev/pts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
                ],
                "volumes": [],
                "spaces": {
                    "user": "new", "network": "new", "ipc": "new", "uts": "new", "pid": "new", "cgroup": "new",
                },
                "ids": {
                    "uids": [{"hostId": BASE, "containerId": 0, "length": 65536}],
                    "gids": [{"hostId": BASE, "containerId": 0, "length": 65536}],
                },
                "process": {
                    "args": ["/bin/sh", "-c", "exit 0"], "env": ["PATH=/bin"], "cwd": "/",
                    "user": {"name": null, "uid": 1000, "gid": 1000, "groups": [], "policy": "merge"},
                    "capabilities": {
                        "bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": [],
                    },
                    "noNewPrivileges": true, "rlimits": [], "oomScoreAdj": null, "apparmorProfile": null,
                    "selinuxLabel": null, "seccomp": "unconfined", "console": "pipes",
                },
                "hostname": null, "sysctls": {}, "maskedPaths": [], "readOnlyPaths": [], "devices": [],
                "deviceRules": [],
                "cgroup": {
                    "path": format!("/wardlet-monitor-tests/{id}"),
                    "resources": {
                        "cpuShares": null, "cpuQuota": null, "cpuPeriod": null, "cpusetCpus": null,
                        "cpusetMems": null, "memory": 64 << 20, "memorySwap": null, "pids": 50,
                        "hugepages": {}, "unified": {},
                    },
                },
                "annotations": {},
            },
        })
    }
}

impl Drop for RealPod {
    fn drop(&mut self) {
        for dir in self.made.borrow().iter() {
            if let Ok(Some(started)) = Started::read(dir) {
                kill(started.process());
            }
            let done = Command::new(container_program()).arg("delete").arg(dir).output().unwrap();
            if !done.status.success() {
                eprintln!("{}: {}", dir.display(), String::from_utf8_lossy(&done.stderr));
            }
        }
        // Its parent is everybody's here; the last one takes it away.
        for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join("wardlet-monitor-tests"));
        }
        let _ = fs::remove_dir("/sys/fs/cgroup/wardlet-monitor-tests");
    }
}

fn layer(dir: &Path) -> PathBuf {
    for name in ["bin", "proc", "dev", "tmp"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    let busybox = dir.join("bin/busybox");
    if !busybox.exists() {
        fs::copy("/bin/busybox", &busybox).unwrap_or_else(|e| panic!("apt-get install busybox-static: {e}"));
        for name in ["sh", "sleep", "cat", "stty", "tail", "echo", "id"] {
            std::os::unix::fs::symlink("busybox", dir.join("bin").join(name)).unwrap();
        }
    }
    dir.to_owned()
}

fn script(job: &mut Value, text: &str) {
    job["start"]["process"]["args"] = json!(["/bin/sh", "-c", text]);
}

#[test]
fn a_real_container_is_logged_and_its_end_is_told() {
    for engine in engines() {
        println!("{engine}");
        let real = RealPod::new();
        let mut client = real.pod.spawn();
        let text = "cat /proc/self/uid_map; echo again > /dev/stdout; echo err >&2; exit 33";
        real.start(&mut client, &engine, "one", |job, _| script(job, text));
        assert_eq!(next_exit(&mut client).exit.ending, Ending::Code(33));
        let started = Started::read(&real.pod.container_dir("one")).unwrap().unwrap();
        assert_eq!(started.user.map(|user| (user.uid, user.gid)), Some((1000, 1000)));
        let mut lines = real.pod.lines("one");
        lines.sort();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[..1], ["stderr F err"]);
        // The stream belongs to the container's user, who can open it again.
        assert!(lines.contains(&"stdout F again".to_owned()), "{lines:?}");
        let words: Vec<_> = lines[1].split_whitespace().skip(2).collect();
        assert_eq!(words, ["0", &BASE.to_string(), "65536"]);
    }
}

#[test]
fn a_real_container_outlives_its_monitor() {
    for engine in engines() {
        println!("{engine}");
        let real = RealPod::new();
        let mut client = real.pod.spawn();
        real.start(&mut client, &engine, "one", |job, _| script(job, "sleep 1000"));
        let process = Started::read(&real.pod.container_dir("one")).unwrap().unwrap().process();
        real.pod.kill_monitor();
        let mut client = real.pod.spawn();
        let dir = real.pod.container_dir("one");
        let adopt = Request::Adopt { container: "one".to_owned(), dir, log: None };
        assert!(
            matches!(client.call(&adopt, &[]).unwrap(), Reply::Started(started) if started.pid == process.pid)
        );
        done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 9 });
        assert_eq!(next_exit(&mut client).exit.ending, Ending::Lost);
        assert!(state(process).is_none_or(|state| state == 'Z'));
    }
}

#[test]
fn a_real_container_that_runs_out_of_memory_is_told_as_such() {
    for engine in engines() {
        println!("{engine}");
        let real = RealPod::new();
        let mut client = real.pod.spawn();
        real.start(&mut client, &engine, "one", |job, _| script(job, "exec tail -n 1 /dev/zero"));
        let exit = next_exit(&mut client).exit;
        assert_eq!((exit.ending, exit.oom), (Ending::Signal(9), true));
    }
}

#[test]
fn a_real_container_has_a_terminal() {
    for engine in engines() {
        println!("{engine}");
        let real = RealPod::new();
        let mut client = real.pod.spawn();
        real.start(&mut client, &engine, "one", |job, request| {
            script(job, "read line; stty size; exit 3");
            job["start"]["process"]["console"] = json!("terminal");
            (request.terminal, request.stdin) = (true, Stdin::Open);
        });
        done(&mut client, &Request::Resize { container: "one".to_owned(), rows: 33, cols: 99 });
        let (theirs, ours) = rustix::pipe::pipe().unwrap();
        let attach = Attach { container: "one".to_owned(), stdin: true, stdout: false, stderr: false };
        assert_eq!(client.call(&Request::Attach(attach), &[theirs.as_fd()]).unwrap(), Reply::Done);
        fs::File::from(ours).write_all(b"\n").unwrap();
        assert_eq!(next_exit(&mut client).exit.ending, Ending::Code(3));
        assert_eq!(real.pod.lines("one").last().unwrap(), "stdout F 33 99\r");
    }
}

#[test]
fn a_real_container_whose_program_is_missing_fails_with_a_reason() {
    for engine in engines() {
        println!("{engine}");
        let real = RealPod::new();
        let mut client = real.pod.spawn();
        let mut job = real.job(&engine, "one");
        job["start"]["process"]["args"] = json!(["/bin/nothing"]);
        let dir = real.pod.container_dir("one");
        fs::write(dir.join("job.json"), job.to_string()).unwrap();
        real.made.borrow_mut().push(dir);
        let Reply::Failed(failed) = client.call(&Request::Start(real.pod.request("one")), &[]).unwrap()
        else {
            panic!()
        };
        println!("{failed:?}");
        assert!(failed.what.contains("/bin/nothing"), "{failed:?}");
        assert_eq!(list(&mut client), []);
    }
}
