//! What the guest as a whole can do, and what becomes of QEMU when its owner is killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vm::frame::Ended;
use vm::{Error, Exec, Series, Vm};

use super::suite::suite;
use testkit::{wait_for, wait_until};

/// The crate `kernel`'s tests as root, as a program in the guest.
pub(crate) const KERNEL_TESTS: &str = "/opt/kernel-root";

/// Its modules that run on each of the kernels.
const KERNEL_MODULES: [&str; 10] = [
    "device_filter",
    "namespace",
    "overlay",
    "attributes",
    "context",
    "filesystems",
    "limits",
    "pins",
    "probe",
    "remove",
];

/// What they make images with, beside what every guest has. The library is loaded by glibc itself when a
/// thread ends, so it is in no program's list.
pub(crate) const MAKERS_OF_FILESYSTEMS: [(&str, &str); 5] = [
    ("/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"),
    ("/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs"),
    ("/usr/bin/mksquashfs", "/bin/mksquashfs"),
    ("/usr/bin/mkfs.erofs", "/sbin/mkfs.erofs"),
    ("/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib/x86_64-linux-gnu/libgcc_s.so.1"),
];

pub(crate) fn outputs_and_status_come_back(vm: &Vm) {
    let output = vm.exec(&["sh", "-c", "echo out; echo err >&2; exit 7"]).unwrap();
    assert_eq!((output.text().as_str(), output.words().as_str(), output.code()), ("out\n", "err\n", 7));
    let killed = vm.exec(&["sh", "-c", "kill -9 $$"]).unwrap();
    assert_eq!((killed.ended.clone(), killed.code()), (Ended::Signal(9), 137));
    assert!(matches!(vm.exec(&["no-such-program"]), Err(Error::NotStarted { .. })));
    let echo = Exec::new(&["sh", "-c", "cat; echo $A"]).input(b"in ".to_vec()).env("A", "a");
    assert_eq!(vm.run(&echo).unwrap().text(), "in a\n");
    // A program of the host with the libraries that came along.
    assert_eq!(vm.exec(&["/opt/dynamic-env", "-i", "B=b"]).unwrap().text(), "B=b\n");
}

pub(crate) fn files_go_in_and_out(vm: &Vm) {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(dir.path().join("in"), &content).unwrap();
    let began = Instant::now();
    vm.put(&dir.path().join("in"), "/out/sub/copy").unwrap();
    vm.fetch("/out", &dir.path().join("back")).unwrap();
    println!("4 MB in and out in {:.1} s", began.elapsed().as_secs_f64());
    assert!(std::fs::read(dir.path().join("back/sub/copy")).unwrap() == content);
    assert!(matches!(vm.write("/proc/no/such", 0o644, vec![]), Err(Error::GuestFile { .. })));
}

pub(crate) fn an_overrun_command_is_killed_and_the_guest_lives_on(vm: &Vm) {
    let sleep = Exec::new(&["sh", "-c", "sleep 1234 & sleep 1234"]).limit(Duration::from_secs(1));
    let error = vm.run(&sleep).unwrap_err();
    assert!(matches!(error, Error::Overran { seconds: 1, .. }), "{error}");
    let left = vm.exec(&["pidof", "sleep"]).unwrap();
    assert!(!left.success(), "still running: {}", left.text());
}

pub(crate) fn the_guest_is_a_pure_cgroup_v2_host(vm: &Vm) {
    let mounts = vm.exec(&["cat", "/proc/mounts"]).unwrap().text();
    let cgroups: Vec<&str> = mounts.lines().filter(|line| line.contains(" cgroup")).collect();
    assert_eq!(cgroups.len(), 1, "{cgroups:?}");
    assert!(cgroups[0].starts_with("cgroup2 /sys/fs/cgroup cgroup2 "), "{cgroups:?}");
    let script =
        "mkdir /sys/fs/cgroup/a && cat /sys/fs/cgroup/a/cgroup.controllers && rmdir /sys/fs/cgroup/a";
    let controllers = vm.exec(&["sh", "-c", script]).unwrap().text();
    assert!(["cpu", "memory", "pids"].iter().all(|c| controllers.contains(c)), "{controllers}");
}

pub(crate) fn modules_are_loaded_by_name(vm: &Vm) {
    let made = vm.exec(&["ip", "link", "add", "probe0", "type", "veth"]).unwrap();
    assert!(made.success(), "{}", made.words());
}

pub(crate) fn var_is_a_disk_that_keeps_labels(vm: &Vm) {
    let mounts = vm.exec(&["grep", " /var ext4 ", "/proc/mounts"]).unwrap().text();
    assert!(mounts.contains("seclabel"), "{mounts}");
    assert_eq!(vm.hello().label, "system_u:system_r:container_runtime_t:s0-s0:c0.c1023");
    let label = vm.exec(&["sh", "-c", "touch /var/lib/f && vm-probe label /var/lib/f"]).unwrap();
    assert_eq!(label.text(), "system_u:object_r:var_lib_t:s0\n", "{}", label.words());
}

pub(crate) fn our_own_tests_run_inside(vm: &Vm) {
    for module in KERNEL_MODULES {
        let only = format!("{module}::");
        suite(vm, module, Exec::new(&[KERNEL_TESTS, "--test-threads=2", "--nocapture", &only]));
    }
}

/// A real server in the guest's kernel. What its helpers in user space would answer, were there any, it is
/// told beforehand: the client, its export, and the export's handle. (Listing, not reading: for the first
/// ninety seconds a server opens no file.)
const NFS: &str = r"
set -e
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /var/export /mnt/nfs
touch /var/export/file
cd /proc/net/rpc
printf '%s\n' 'nfsd 127.0.0.1 2147483647 local' >auth.unix.ip/channel
printf '%s\n' 'local /var/export 2147483647 9218 65534 65534 0' >nfsd.export/channel
printf '%s\n' 'local 1 \x00000000 2147483647 /var/export' >nfsd.fh/channel
cd /proc/fs/nfsd
printf '%s\n' '-3 +4 +4.1 +4.2' >versions
printf '%s\n' 'tcp 2049' >portlist
echo 2 >threads
mount -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,sec=sys 127.0.0.1:/ /mnt/nfs
ls /mnt/nfs
";

pub(crate) fn nfs_is_refused_by_name(vm: &Vm) {
    let mounted = vm.exec(&["sh", "-c", NFS]).unwrap();
    assert_eq!(mounted.text(), "file\n", "{}", mounted.words());
    let refused = vm.exec(&["vm-probe", "idmap", "/mnt/nfs"]).unwrap();
    let says = "nfs4, which /mnt/nfs is on, cannot be idmapped by this kernel\n";
    assert_eq!((refused.words().as_str(), refused.code()), (says, 1));
    let ended = vm.exec(&["sh", "-c", "umount /mnt/nfs && echo 0 >/proc/fs/nfsd/threads"]).unwrap();
    assert!(ended.success(), "{}", ended.words());
}

pub(crate) fn the_whole_of_wardlet_runs_inside(vm: &Vm) {
    let lease = vm.exec(&["wardlet", "ids", "lease", "probe", "-o", "json"]).unwrap();
    assert!(lease.success() && lease.text().contains("hostId"), "{}{}", lease.text(), lease.words());
}

/// Killed so that nothing of ours can clean up: QEMU must go by itself.
#[test]
fn no_qemu_outlives_a_killed_run() {
    vm::ensure(Series::V6_1).unwrap();
    vm::static_binary("vm", "vm-agent").unwrap();
    let run = ["run", "--kernel", "6.1", "--", "sleep", "1000"];
    let mut vm = Command::new(env!("CARGO_BIN_EXE_vm")).args(run).stderr(Stdio::null()).spawn().unwrap();
    let qemu = wait_for("QEMU runs", || qemu_of(vm.id()));
    vm.kill().unwrap();
    vm.wait().unwrap();
    wait_until("QEMU has ended", || !Path::new(&format!("/proc/{qemu}")).exists());
}

fn qemu_of(parent: u32) -> Option<u32> {
    let is_child = |status: &str| status.lines().any(|line| line == format!("PPid:\t{parent}"));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.find(|number| {
        let status = std::fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.starts_with("Name:\tqemu-system") && is_child(&status)
    })
}
