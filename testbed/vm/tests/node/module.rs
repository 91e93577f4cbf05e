//! Story 2 of the user namespace proposal, on kernels that have modules: a pod with the host's users and
//! CAP_SYS_MODULE loads one, an isolated pod with the same capability is refused by the kernel, and `--isolate`
//! leaves such a pod as it is and says why.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vm::{Exec, Options, Output, Payload, Series, Vm};

const PROGRAMS: [&str; 3] = ["wardlet", "wardlet-monitor", "wardlet-container"];

/// What is /srv/wardlet in the example; on a disk, which the older of these kernels can idmap.
const SRV: &str = "/var/srv";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn boot(series: Series) -> Vm {
    vm::ensure(series).unwrap();
    let work = tempfile::tempdir().unwrap();
    let mut payloads = PROGRAMS.map(|name| Payload::of_ours(name, &format!("/opt/{name}"))).to_vec();
    let image = work.path().join("busybox.tar");
    let maker = top().join("scripts/busybox-image.sh");
    done(Command::new(maker).arg("localhost/wardlet-busybox:1").arg(&image));
    payloads.push(Payload::new(&image, "/opt/busybox.tar"));
    let vm = Vm::boot(&Options { payloads, ..Options::new(series) }).unwrap();
    inside(&vm, &format!("mkdir -p {SRV}/modules && cp $(find /lib/modules -name dummy.ko) {SRV}/modules/"));
    inside(&vm, "/opt/wardlet --state-dir /var/lib/wardlet image import /opt/busybox.tar");
    vm
}

fn inside(vm: &Vm, script: &str) -> Output {
    let output = vm.run(&Exec::new(&["sh", "-c", script]).limit(Duration::from_secs(300))).unwrap();
    assert!(output.success(), "{script}: {}{}", output.text(), output.words());
    output
}

/// The story with these words about its users; its exit code and what was said.
fn played(vm: &Vm, users: &str, more: &str) -> (i32, String) {
    let text = std::fs::read_to_string(top().join("examples/stories/2-module.yaml")).unwrap();
    assert!(text.contains("  hostUsers: true\n") && text.contains("/srv/wardlet"));
    let text = text.replace("  hostUsers: true\n", users).replace("/srv/wardlet", SRV);
    vm.write("/opt/module.yaml", 0o644, text.into_bytes()).unwrap();
    let run =
        format!("/opt/wardlet --state-dir /var/lib/wardlet run {more} --programs /opt /opt/module.yaml");
    let output = vm.run(&Exec::new(&["sh", "-c", &run]).limit(Duration::from_secs(300))).unwrap();
    (output.code(), output.text() + &output.words())
}

fn is_loaded(vm: &Vm) -> bool {
    inside(vm, "cat /proc/modules").text().lines().any(|line| line.starts_with("dummy "))
}

fn a_module_is_loaded_with_the_hosts_users_only(series: Series) {
    let vm = boot(series);
    assert!(!is_loaded(&vm));

    let (code, said) = played(&vm, "  hostUsers: false\n", "");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("insmod: can't insert '/modules/dummy.ko': Operation not permitted"), "{said}");
    assert!(!is_loaded(&vm), "{said}");

    let (code, said) = played(&vm, "  hostUsers: true\n", "");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("module/main | loaded") && is_loaded(&vm), "{said}");
    inside(&vm, "rmmod dummy");

    let (code, said) = played(&vm, "", "--isolate");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("default/module keeps the host's users: "), "{said}");
    assert!(said.contains("SYS_MODULE, worth less in a user namespace"), "{said}");
    assert!(said.contains("module/main | loaded") && is_loaded(&vm), "{said}");
    vm.shutdown().unwrap();
}

#[test]
fn a_module_is_loaded_with_the_hosts_users_only_on_6_1() {
    a_module_is_loaded_with_the_hosts_users_only(Series::V6_1);
}

#[test]
fn a_module_is_loaded_with_the_hosts_users_only_on_6_12() {
    a_module_is_loaded_with_the_hosts_users_only(Series::V6_12);
}
