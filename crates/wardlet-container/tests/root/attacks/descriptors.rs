//! Finding 1. The engine left descriptors open with close-on-exec alone, one of them a procfs of the host's PID
//! namespace. execve resolves the program's path before it closes them: a program (or a `PATH`) of the form
//! `/proc/self/fd/N/<host pid>/root/<file>` ran a file of the host, from where the container could overwrite it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use container::Console;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::variants::{Processes, Variant};
use crate::support::{self, Users};

/// More than any engine has open.
const DESCRIPTORS: std::ops::Range<u32> = 3..40;

/// A directory of the host with a program that no container has.
struct HostProgram {
    dir: tempfile::TempDir,
}

impl HostProgram {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::copy("/bin/busybox", dir.path().join("busybox")).unwrap();
        symlink("busybox", dir.path().join("sleep")).unwrap();
        Self { dir }
    }

    /// The directory, by way of each descriptor that may be a procfs of the host.
    fn by_descriptors(&self) -> Vec<String> {
        let below = self.dir.path().strip_prefix("/").unwrap().display().to_string();
        let own = std::process::id();
        DESCRIPTORS.map(|fd| format!("/proc/self/fd/{fd}/{own}/root/{below}")).collect()
    }
}

fn runs_a_host_program(variant: &Variant, args: &[&str], path: &str) -> bool {
    let mut attacker = variant.container(args);
    let process = &mut attacker.container.job.start.process;
    process.env = vec![format!("PATH={path}")];
    process.capabilities = container::capabilities::of(&container::capabilities::RequestedCapabilities {
        add: vec!["SYS_PTRACE".to_owned()],
        ..Default::default()
    })
    .unwrap();
    attacker.run();
    attacker.container.init.is_some()
}

/// The container's own `sleep` is never in that `PATH`: if something runs, it is a file of the host's.
#[test]
fn a_search_path_through_an_open_descriptor_leads_to_no_program_of_the_host() {
    let host = HostProgram::new();
    let path = host.by_descriptors().join(":");
    for variant in Variant::all() {
        assert!(!runs_a_host_program(&variant, &["sleep", "1000"], &path), "{variant:?}");
    }
}

#[test]
fn a_program_path_through_an_open_descriptor_leads_to_no_program_of_the_host() {
    let host = HostProgram::new();
    let of_host = |one: &Variant| one.users == Users::Host && one.processes == Processes::Own;
    for variant in Variant::built_in().into_iter().filter(of_host) {
        for dir in host.by_descriptors() {
            let program = format!("{dir}/sleep");
            assert!(!runs_a_host_program(&variant, &[&program, "1000"], "/bin"), "{variant:?} {program}");
        }
    }
}

/// Held back in the very call, and looked at from the host: whatever path the program has, nothing of ours is there
/// to be reached by it.
#[test]
fn nothing_but_the_standard_streams_is_open_when_the_program_is_executed() {
    for variant in Variant::built_in().iter().filter(|one| one.console == Console::Pipes) {
        let attacker = variant.container(&["/bin/sleep", "1000"]);
        let container = &attacker.container;
        container.write_job();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh", "strace", "-qqf", "-o", "/dev/null"]);
        command.args(["-e", "trace=execve", "-e", "inject=execve:delay_enter=1000000"]);
        let (reading, writing) = std::io::pipe().unwrap();
        command.arg(support::helper()).arg("run").arg(container.dir()).stdin(Stdio::from(writing));
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut open = None;
        support::wait_until("the first process is about to execute its program", || {
            open = in_execve(&container.job.start.cgroup.path);
            open.is_some()
        });
        // Its tracees go on without it.
        child.kill().unwrap();
        child.wait().unwrap();
        drop(reading);
        let (pid, open) = open.unwrap();
        let strange: Vec<_> =
            open.iter().filter(|(fd, path)| *fd > 2 && !path.starts_with("pipe:")).collect();
        assert!(strange.is_empty(), "{variant:?}: {strange:?}");
        // Nothing recorded that it runs, so that deleting it ends it.
        assert!(container.delete().status.success());
        // This process takes it in when the one that started it ends. A PID namespace that it is in cannot end before it
        // is waited for.
        support::wait_until("it is waited for", || {
            let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::NOHANG);
            !fs::exists(format!("/proc/{pid}")).unwrap()
        });
    }
}

/// The process of this control group that is in execve, and its descriptors, if there is one.
fn in_execve(group: &str) -> Option<(u32, Vec<(u32, String)>)> {
    let waits = |pid: &u32| {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        call.starts_with("59 ")
    };
    let pid = processes(group).into_iter().find(waits)?;
    let open = |entry: fs::DirEntry| {
        let path = fs::read_link(entry.path()).ok()?.display().to_string();
        Some((entry.file_name().to_str()?.parse().ok()?, path))
    };
    Some((pid, fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().filter_map(open).collect()))
}

fn processes(group: &str) -> Vec<u32> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    let roots = hierarchies.chain(["/sys/fs/cgroup".into()]);
    let lists = roots.map(|root| root.join(group.trim_start_matches('/')).join("cgroup.procs"));
    let texts = lists.filter_map(|list| fs::read_to_string(list).ok());
    texts.flat_map(|text| text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
