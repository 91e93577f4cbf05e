//! A kubelet among the processes of this machine.

use std::fs::Metadata;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ::cgroups::KubeNames;
use ::node::kubelet::KubeletConfig;
use procfs::{Proc, Task};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};

/// What a kubelet is called.
const KUBELET: &[u8] = b"kubelet";
/// The kubelet's flag for its root directory.
const ROOT_FLAG: &[u8] = b"--root-dir";
/// Where that is without the flag.
const DEFAULT_ROOT: &str = "/var/lib/kubelet";
/// The line of `/proc/PID/status` with the real, the effective, the saved and the filesystem's user ID.
const USERS: &[u8] = b"Uid:";
/// The bits of a program that runs with the rights of its owner or group.
const SET_ID: u32 = 0o6000;

/// The cgroups of all pods, for both drivers.
pub(super) fn pods_cgroups(config: &KubeletConfig) -> Vec<String> {
    let root = config.cgroup_root.as_deref().unwrap_or_default();
    let names = [KubeNames::cgroupfs(root), KubeNames::systemd(root)];
    names.into_iter().flatten().map(|names| names.kubepods()).collect()
}

/// The process of a kubelet on this root directory, also in another mount namespace. Any user can name a process so, and a pod
/// can: only processes of the host's root count, and none in one of the cgroups `pods`.
pub(super) fn kubelet_on(root: &Metadata, pods: &[String]) -> Option<u32> {
    let proc = Proc::own().ok()?;
    let own = Task::own().ok()?;
    let runs = |task: &Task| is_of_host(task, &own, pods) && is_kubelet_on(task, root);
    proc.processes().ok()?.flatten().find(runs).map(|task| task.id())
}

/// Whether a process has the power of the host's root and is not part of a pod. One that ends meanwhile has not. What is asked
/// here is the kernel's own: the process cannot delay the answer.
fn is_of_host(task: &Task, own: &Task, pods: &[String]) -> bool {
    let is_root = || task.read("status").is_ok_and(|text| effective_user(&text) == Some(0));
    let users = |task: &Task| task.namespace("user").ok();
    let is_here = || users(task).is_some_and(|found| users(own) == Some(found));
    // Any user can start a program of this kind, such as sudo, under any name.
    let gives_rights = || {
        let program = statat(task, "exe", AtFlags::empty());
        program.is_ok_and(|program| program.st_mode & SET_ID != 0)
    };
    let is_outside = || task.read("cgroup").is_ok_and(|lines| !is_below(&lines, pods));
    is_root() && is_here() && !gives_rights() && is_outside()
}

/// The effective user ID in `/proc/PID/status`, as this process's user namespace has it.
fn effective_user(status: &[u8]) -> Option<u32> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(USERS))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a line of `/proc/PID/cgroup` has one of these cgroups, or one below it.
fn is_below(lines: &[u8], cgroups: &[String]) -> bool {
    // HIERARCHY:CONTROLLERS:PATH
    let mut paths =
        lines.split(|byte| *byte == b'\n').filter_map(|line| line.splitn(3, |byte| *byte == b':').nth(2));
    let is_in = |path: &[u8], cgroup: &String| {
        path.strip_prefix(cgroup.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    };
    paths.any(|path| cgroups.iter().any(|cgroup| is_in(path, cgroup)))
}

fn is_kubelet_on(task: &Task, root: &Metadata) -> bool {
    let found = || {
        let dir = root_dir(&task.arguments().ok()?)?;
        let handle = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(task, "root", handle, Mode::empty()).ok()?;
        inside(top.as_fd(), &dir)
    };
    found() == Some((root.dev(), root.ino()))
}

/// Device and inode of the directory that a process whose root is `top` finds at this path. Links are followed as there: those to
/// absolute paths lead below `top`, and the links of proc, which lead anywhere, are none.
fn inside(top: BorrowedFd<'_>, path: &Path) -> Option<(u64, u64)> {
    let handle = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let dir = openat2(top, path, handle, Mode::empty(), resolve).ok()?;
    let found = fstat(dir).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// The root directory of a kubelet with these arguments; `None` for another program.
fn root_dir(arguments: &[Vec<u8>]) -> Option<PathBuf> {
    let (program, flags) = arguments.split_first()?;
    if program.rsplit(|byte| *byte == b'/').next() != Some(KUBELET) {
        return None;
    }
    let mut value = None;
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.strip_prefix(ROOT_FLAG) {
            Some([]) => value = flags.next().map(Vec::as_slice),
            Some([b'=', rest @ ..]) => value = Some(rest),
            _ => {}
        }
    }
    Some(
        value.map_or_else(
            || PathBuf::from(DEFAULT_ROOT),
            |text| PathBuf::from(std::ffi::OsStr::from_bytes(text)),
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// The user `nobody`.
    const NOBODY: u32 = 65534;

    /// A shell under the name of a kubelet, which is killed in the end.
    struct Named(Child);

    impl Named {
        fn start(root: &Path, user: Option<u32>) -> Self {
            let mut command = Command::new("/bin/sh");
            command
                .arg0("kubelet")
                .args(["-c", "read line", "sh"])
                .arg(format!("--root-dir={}", root.display()));
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            if let Some(user) = user {
                command.uid(user);
            }
            let started = Self(command.spawn().unwrap());
            // It is started before the kernel has set up its arguments.
            while Task::open(started.0.id()).unwrap().arguments().unwrap().is_empty() {
                std::thread::yield_now();
            }
            started
        }
    }

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn of(arguments: &[&str]) -> Option<PathBuf> {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
        root_dir(&arguments)
    }

    #[test]
    fn the_root_directory_of_a_kubelet_is_read_in_its_arguments() {
        let default = Some(PathBuf::from(DEFAULT_ROOT));
        assert_eq!(of(&["/usr/bin/kubelet", "--v=2"]), default);
        assert_eq!(of(&["kubelet", "--root-dir=/data/k"]), Some("/data/k".into()));
        assert_eq!(of(&["kubelet", "--root-dir", "/data/k", "--v=2"]), Some("/data/k".into()));
        assert_eq!(of(&["kubelet", "--root-directory=/other"]), default);
        for other in [&["/usr/bin/kubelet-wrapper"][..], &["wardlet", "agent"], &["sh", "-c", "kubelet"], &[]]
        {
            assert_eq!(of(other), None);
        }
    }

    /// Any user kept the agent from starting by a process of this name.
    #[test]
    fn only_the_hosts_root_runs_a_kubelet() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().metadata().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let started = Named::start(dir.path(), is_root.then_some(NOBODY));
        assert_eq!(kubelet_on(&root, &[]), None);
        drop(started);
        let started = Named::start(dir.path(), None);
        assert_eq!(kubelet_on(&root, &[]), is_root.then(|| started.0.id()));
        // The cgroup that every process is below.
        let everywhere = [String::new()];
        assert_eq!(kubelet_on(&root, &everywhere), None);
    }

    /// The link of an image to the directory in the container was taken for the host's.
    #[test]
    fn a_path_is_resolved_below_the_root_of_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let (host, image) = (dir.path().join("kubelet"), dir.path().join("image"));
        std::fs::create_dir_all(&host).unwrap();
        std::fs::create_dir_all(image.join("var/lib")).unwrap();
        symlink(&host, image.join("var/lib/kubelet")).unwrap();
        symlink("../../../kubelet", image.join("var/lib/above")).unwrap();
        symlink("/var/lib", image.join("data")).unwrap();
        let top = File::open(&image).unwrap();
        let found = |path: &str| inside(top.as_fd(), Path::new(path));
        assert_eq!((found("/var/lib/kubelet"), found("/var/lib/above")), (None, None));
        let lib = image.join("var/lib").metadata().unwrap();
        assert_eq!(found("/data"), Some((lib.dev(), lib.ino())));
        let top = File::open("/").unwrap();
        assert_eq!(inside(top.as_fd(), Path::new("/proc/self/root")), None);
    }

    #[test]
    fn a_process_is_in_the_cgroup_of_pods_or_below_it() {
        let pods = ["/node/kubepods".to_owned(), "/node.slice/node-kubepods.slice".to_owned()];
        let is_in = |lines: &str| is_below(lines.as_bytes(), &pods);
        assert!(is_in("0::/node/kubepods/besteffort/podx/c\n"));
        assert!(is_in("12:cpu,cpuacct:/node/kubepods\n0::/\n"));
        assert!(is_in("0::/node.slice/node-kubepods.slice/a:b.scope\n"));
        for other in
            ["0::/kubepods/podx\n", "0::/node/kubepods-not/x\n", "0::/system.slice/kubelet.service\n", ""]
        {
            assert!(!is_in(other), "{other}");
        }
    }

    #[test]
    fn the_effective_user_decides() {
        let status = |uid: &str| format!("Name:\tkubelet\nPPid:\t1\nUid:\t{uid}\nGid:\t0\t0\t0\t0\n");
        assert_eq!(effective_user(status("1000\t0\t0\t0").as_bytes()), Some(0));
        assert_eq!(effective_user(status("0\t1000\t0\t0").as_bytes()), Some(1000));
        assert_eq!(effective_user(b"Name:\tUid:\t0\t0\n"), None);
    }
}
