//! Who is killed, and when: at a call that strace counts, or at a moment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{Call, Dice};

use super::{House, until};

/// Calls that change something that others see: files, mounts, processes, what sockets are told.
pub const CHANGES: [&str; 33] = [
    "clone",
    "clone3",
    "connect",
    "fchmod",
    "fchown",
    "fdatasync",
    "flock",
    "fsmount",
    "fsync",
    "ftruncate",
    "kill",
    "linkat",
    "mkdir",
    "mkdirat",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "openat",
    "pidfd_send_signal",
    "rename",
    "renameat2",
    "rmdir",
    "sendmsg",
    "sendto",
    "setns",
    "socket",
    "umount2",
    "unlink",
    "unlinkat",
    "unshare",
    "vfork",
    "write",
];

/// So many of all calls, spread over all of them, from a random first one.
pub fn chosen(calls: &[Call], many: usize, dice: &mut Dice) -> Vec<Call> {
    let step = calls.len().div_ceil(many).max(1);
    calls.iter().skip(dice.below(step)).step_by(step).take(many).cloned().collect()
}

/// What of a record of strace's changes something.
pub fn changes(log: &Path) -> Vec<Call> {
    testkit::changes(&fs::read_to_string(log).unwrap(), |name| CHANGES.contains(&name))
}

/// strace on a process that runs already; it lets go when this is dropped.
pub struct Tracer(Child);

impl Tracer {
    /// With all its threads, but without what it starts.
    pub async fn on(pid: u32, options: &[String]) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-b", "execve", "-qq", "-p", &pid.to_string()]).args(options);
        let child = command.stderr(Stdio::null()).spawn();
        let child = child.expect("this test needs strace, apt-get install strace");
        until("strace is attached", async || {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Some(()) };
            (!status.contains("TracerPid:\t0\n")).then_some(())
        })
        .await;
        // The other threads come after the first.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Self(child)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        super::signal(self.0.id(), rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Programs that are ours, but for one that is killed at some call when it is armed.
pub struct Rigged {
    dir: PathBuf,
}

impl Rigged {
    /// In the house from its next server on.
    pub fn install(house: &mut House) -> Self {
        let dir = house.dir.join("bin");
        fs::create_dir(&dir).unwrap();
        let built = testkit::programs();
        std::os::unix::fs::symlink(built.join("wardlet-monitor"), dir.join("wardlet-monitor")).unwrap();
        let script = format!(
            "#!/bin/sh\nif mv {0}/armed-$1 {0}/fired 2>/dev/null; then\n  exec strace -D -qq $(cat {0}/fired) {1} \"$@\"\nfi\nexec {1} \"$@\"\n",
            dir.display(),
            built.join("wardlet-container").display()
        );
        let path = dir.join("wardlet-container");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        house.programs = Some(dir.clone());
        Self { dir }
    }

    /// The next of this kind (run, exec, delete) has strace with it.
    pub fn arm(&self, kind: &str, options: &[String]) {
        let _ = fs::remove_file(self.dir.join("fired"));
        fs::write(self.dir.join("new"), options.join(" ")).unwrap();
        fs::rename(self.dir.join("new"), self.dir.join(format!("armed-{kind}"))).unwrap();
    }

    /// Whether the one that was armed was run.
    pub fn fired(&self, kind: &str) -> bool {
        let _ = fs::remove_file(self.dir.join(format!("armed-{kind}")));
        self.dir.join("fired").exists()
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }
}
