//! What holds for every runtime.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use kernel::{Namespace, NamespaceKind, NetworkVisit, Process};
use serde_json::{Value, json};

use super::{BASE, Host, Pod, owner, spec};

/// The image's files, and those that the container writes.
pub fn owners_are_right_inside_and_outside(host: &Host) {
    let pod = host.running_pod(BASE);
    let container = host.create(&pod, |spec| {
        let script = "stat -c %u:%g / /bin/busybox /home/ann/text; touch /mine /home/ann/mine; \
                      stat -c %u:%g /mine; chown 7:8 /home/ann/mine; stat -c %u:%g /home/ann/mine; \
                      echo more >>/home/ann/text; cat /home/ann/text; sleep 1000 >/dev/null & echo end";
        spec::script(spec, 0, script);
    });
    let upper = upper_of(host, &container.bundle);
    host.start(&container);
    let said = read_lines(container.out.unwrap(), 8);
    assert_eq!(said[..5], ["0:0", "0:0", "1000:1001", "0:0", "7:8"]);
    assert_eq!(said[5..], ["ann'smore", "end"].map(str::to_owned));
    // On disk: the container's own changes are its users', and nothing else has changed.
    assert_eq!(owner(&upper), (BASE, BASE));
    assert_eq!(owner(&upper.join("mine")), (BASE, BASE));
    assert_eq!(owner(&upper.join("home/ann/mine")), (BASE + 7, BASE + 8));
    assert_eq!(owner(&upper.join("home/ann/text")), (BASE + 1000, BASE + 1001));
    assert_eq!(owner(&host.layer(2).join("home/ann/text")), (1000, 1001));
    assert_eq!(owner(&host.layer(1).join("bin/busybox")), (0, 0));
}

/// A directory with owners and a file, as the kubelet and containerd make them.
pub fn volumes_are_seen_with_their_owners_and_written_as_on_disk(host: &Host) {
    let volume = host.path("volume");
    fs::create_dir(&volume).unwrap();
    fs::set_permissions(&volume, Permissions::from_mode(0o777)).unwrap();
    fs::write(volume.join("theirs"), "x").unwrap();
    chown(volume.join("theirs"), Some(1000), Some(2000)).unwrap();
    let hosts = host.path("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let pod = host.running_pod(BASE);
    let said = host.run(&pod, |spec| {
        spec::bind(spec, &volume, "/data", &["rbind", "rprivate", "rw"]);
        spec::bind(spec, &volume, "/kept", &["rbind", "rprivate", "ro"]);
        spec::bind(spec, &hosts, "/etc/hosts", &["rbind", "rprivate", "rw"]);
        let script = "stat -c %u:%g /data/theirs /etc/hosts; echo new >/data/mine; chown 5:6 /data/mine; \
                      echo more >>/etc/hosts; touch /kept/no 2>/dev/null || echo refused";
        spec::script(spec, 0, script);
    });
    assert_eq!(said.lines().collect::<Vec<_>>(), ["1000:2000", "0:0", "refused"]);
    assert_eq!(owner(&volume.join("mine")), (5, 6));
    assert_eq!((owner(&volume), owner(&volume.join("theirs"))), ((0, 0), (1000, 2000)));
    assert_eq!((owner(&hosts), fs::read_to_string(&hosts).unwrap().lines().count()), ((0, 0), 2));
}

/// Nothing can be written but to volumes.
pub fn a_root_that_is_read_only_stays_so(host: &Host) {
    let pod = host.running_pod(BASE);
    let said = host.run(&pod, |spec| {
        spec["root"]["readonly"] = json!(true);
        spec::script(
            spec,
            0,
            "touch /mine 2>/dev/null || echo refused; touch /dev/shm 2>/dev/null && echo there",
        );
    });
    assert_eq!(said.lines().collect::<Vec<_>>(), ["refused", "there"]);
}

/// A network that the runtime makes belongs to the pod's users, who may then do with it what they like.
pub fn a_network_of_the_pods_own_is_left_to_the_runtime(host: &Host) {
    let pod = host.pod(BASE);
    let said = host.run(&pod, |spec| {
        let namespaces = spec["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|namespace| namespace["type"] != "network");
        namespaces.push(json!({ "type": "network" }));
        spec["linux"]["sysctl"] =
            json!({ "net.core.somaxconn": "77", "net.ipv4.ping_group_range": "0 2147483647" });
        let script =
            "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ping_group_range; ls /sys/class/net";
        spec::script(spec, 0, script);
    });
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["77", "0", "65535", "lo"]);
}

/// Mounts below a volume come along, read-only ones to the last; what the host mounts later arrives where
/// that was asked for.
pub fn mounts_below_a_volume_come_along_and_travel_as_asked(host: &Host) {
    use rustix::mount::{MountFlags, mount};
    let volume = host.path("volume");
    fs::create_dir_all(volume.join("inner")).unwrap();
    fs::create_dir_all(volume.join("later")).unwrap();
    mount("tmpfs", volume.join("inner"), "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(volume.join("inner/file"), "below").unwrap();
    let pod = host.running_pod(BASE);
    let container = host.create(&pod, |spec| {
        spec::bind(spec, &volume, "/all", &["rbind", "rslave", "rw"]);
        spec::bind(spec, &volume, "/shut", &["rbind", "rprivate", "rro"]);
        spec::bind(spec, &volume, "/flat", &["bind", "rprivate", "rw"]);
        let script = "cat /all/inner/file; echo; ls /flat/inner | cat; touch /all/inner/x && stat -c %u /all/inner/x; \
                      touch /shut/inner/y 2>/dev/null || echo shut; echo first; \
                      while ! test -e /all/later/there; do sleep 0.05; done; \
                      test -e /shut/later/there || echo arrived in one";
        spec::script(spec, 0, script);
    });
    host.start(&container);
    let mut out = container.out.unwrap();
    assert_eq!(read_lines(&mut out, 5), ["below", "0", "shut", "first"]);
    mount("tmpfs", volume.join("later"), "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(volume.join("later/there"), "").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.trim(), "arrived in one");
}

/// The shim's pipes are root's; the container's user opens them anew by name.
pub fn a_user_writes_to_its_standard_streams_by_name(host: &Host) {
    let pod = host.running_pod(BASE);
    let said =
        host.run(&pod, |spec| spec::script(spec, 1000, "echo one >/dev/stdout; id -u >/proc/self/fd/1"));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["one", "1000"]);
    let container = host.create(&pod, |_| {});
    host.start(&container);
    assert_eq!(host.exec(&pod, &container, (1000, "echo two >/dev/stdout")), "two");
}

pub fn a_user_serves_on_port_80(host: &Host) {
    let pod = host.running_pod(BASE);
    let server = host.create(&pod, |spec| spec::script(spec, 1000, "exec httpd -f -p 80 -h /www"));
    host.start(&server);
    assert!(fetched(&pod).ends_with("served"));
}

fn fetched(pod: &Pod) -> String {
    let visit = NetworkVisit::to(&Namespace::open(&pod.network).unwrap()).unwrap();
    let mut stream = loop {
        match TcpStream::connect("127.0.0.1:80") {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    visit.leave().unwrap();
    answer
}

/// Of the first container and of others, seen from outside; exec's are told by itself.
pub fn all_are_in_the_pods_namespaces_and_exec_in_all_of_inits(host: &Host) {
    let pod = host.running_pod(BASE);
    let container = host.create(&pod, |_| {});
    host.start(&container);
    let script = "for kind in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$kind; done; \
                  cat /proc/self/uid_map";
    let said = host.exec(&pod, &container, (0, script));
    let inits: Vec<String> = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        .map(|kind| fs::read_link(format!("/proc/{}/ns/{kind}", container.pid)).unwrap())
        .iter()
        .map(|link| link.display().to_string())
        .collect();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..7], inits);
    assert_eq!(lines[7].split_whitespace().collect::<Vec<_>>(), ["0", &BASE.to_string(), "65536"]);
    let namespaces = |pid| Process::open(pid).unwrap().namespaces().unwrap();
    let (one, other) = (namespaces(pod.init.unwrap()), namespaces(container.pid));
    let differing: Vec<_> = one.differing(&other).map(|kind| kind.file()).collect();
    assert!(!differing.contains(&"user") && !differing.contains(&"net") && !differing.contains(&"ipc"));
    let network = Namespace::open(&pod.network).unwrap();
    assert_eq!(other.get(kernel::NamespaceKind::Net), Some(network.id()));
}

/// As `shareProcessNamespace` has it.
pub fn processes_of_a_pod_are_shared_where_that_is_asked_for(host: &Host) {
    let pod = host.running_pod(BASE);
    let said = host.run(&pod, |spec| {
        let init = pod.init.unwrap();
        for namespace in spec["linux"]["namespaces"].as_array_mut().unwrap() {
            if namespace["type"] == "pid" {
                namespace["path"] = json!(format!("/proc/{init}/ns/pid"));
            }
        }
        spec::script(spec, 0, "cat /proc/1/comm; stat -c %u /proc/1/exe");
    });
    assert_eq!(said.lines().collect::<Vec<_>>(), ["sleep", "0"]);
}

/// The network's settings are made outside, and the others left to the runtime; sysfs is the pod's network's.
pub fn the_pods_network_is_seen_and_set_from_outside(host: &Host) {
    let mut pod = host.pod(BASE);
    let sandbox = host.create(&pod, |spec| {
        spec["linux"]["sysctl"] = json!({
            "net.core.somaxconn": "321", "net.ipv4.ping_group_range": "0 2147483647", "kernel.shm_rmid_forced": "1",
        });
    });
    host.start(&sandbox);
    pod.init = Some(sandbox.pid);
    let script = "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_unprivileged_port_start \
                  /proc/sys/kernel/shm_rmid_forced; cat /proc/sys/net/ipv4/ping_group_range; \
                  ls /sys/class/net; touch /sys/x 2>/dev/null || echo kept";
    let said = host.run(&pod, |spec| spec::script(spec, 0, script));
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words, ["321", "0", "1", "0", "65535", "lo", "kept"]);
}

/// Neither the table of the host nor anything below its directories.
pub fn the_host_sees_no_mount_of_ours(host: &Host) {
    let pod = host.pod(BASE);
    let (id, bundle) = host.bundle(&pod, |_| {});
    let before = host.mounts();
    let container = host.create_in(&pod, &id, &bundle).unwrap();
    host.assert_mounts(&before, "after the create");
    host.start(&container);
    host.assert_mounts(&before, "after the start");
    let left: Vec<_> = fs::read_dir(host.stage()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["rootfs"]);
    assert_eq!(fs::read_dir(host.stage().join("rootfs")).unwrap().count(), 0);
    let done = host.runtime(&["delete", "--force", &id]);
    assert!(done.status.success());
    host.assert_mounts(&before, "after the delete");
}

/// The directory that takes a container's changes.
pub fn upper_of(host: &Host, bundle: &Path) -> std::path::PathBuf {
    let table = host.mounts();
    let mount = table.at(&bundle.join("rootfs")).unwrap();
    mount.super_options.iter().find_map(|option| option.strip_prefix("upperdir=")).unwrap().into()
}

/// As many lines as there are up to this many, or to one that says `end` or `first`.
fn read_lines(mut from: impl Read, most: usize) -> Vec<String> {
    let mut text = Vec::new();
    let mut letter = [0];
    let finished = |text: &[u8]| text.ends_with(b"end\n") || text.ends_with(b"first\n");
    while !finished(&text) && text.iter().filter(|b| **b == b'\n').count() < most {
        if from.read(&mut letter).unwrap() == 0 {
            break;
        }
        text.push(letter[0]);
    }
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// Which device a node is, and whose: the host may have another at that path.
pub fn a_device_that_was_given_is_the_containers(host: &Host) {
    let pod = host.running_pod(BASE);
    let said = host.run(&pod, |spec| {
        let device = |path: &str, number: [u32; 2], owner: [u32; 2]| {
            json!({
                "path": path, "type": "c", "major": number[0], "minor": number[1], "fileMode": 0o600,
                "uid": owner[0], "gid": owner[1],
            })
        };
        spec["linux"]["devices"] =
            json!([device("/dev/given", [10, 229], [1000, 7]), device("/dev/null", [1, 3], [0, 0])]);
        let rule = |number: [u32; 2], access| {
            json!({ "allow": true, "type": "c", "major": number[0], "minor": number[1], "access": access })
        };
        let rules = spec["linux"]["resources"]["devices"].as_array_mut().unwrap();
        rules.extend([rule([10, 229], "r"), rule([1, 3], "rwm")]);
        let script = "stat -c '%u:%g %a %t:%T' /dev/given; (: </dev/given) && echo read; \
                      (: >>/dev/given) 2>/dev/null || echo not written; echo x >/dev/null && echo null";
        spec::script(spec, 1000, script);
    });
    assert_eq!(said.lines().collect::<Vec<_>>(), ["1000:7 600 a:e5", "read", "not written", "null"]);
    assert!(!Path::new("/dev/given").exists());
}

/// As CRI-O has it: namespaces for messages and names are the host's, by path, and directories are made in the container's
/// layer before the runtime is called. The pod has its own instead, all containers the same, and the files are its root's.
pub fn what_the_caller_made_for_the_pod_is_the_pods(host: &Host) {
    let kinds = [NamespaceKind::Ipc, NamespaceKind::Uts];
    let callers: Vec<_> = kinds.iter().map(|kind| host.path(&format!("callers-{}", kind.file()))).collect();
    for (made, path) in kernel::namespace::make(None, &kinds, None).unwrap().iter().zip(&callers) {
        made.pin(path).unwrap();
    }
    let by_path = |spec: &mut Value| {
        for space in spec["linux"]["namespaces"].as_array_mut().unwrap() {
            if let Some(at) = kinds.iter().position(|kind| space["type"] == kind.file()) {
                space["path"] = json!(callers[at]);
            }
        }
        spec["hostname"] = json!("ward");
    };
    let mut pod = host.pod(BASE);
    let (id, bundle) = host.bundle(&pod, by_path);
    fs::create_dir(bundle.join("rootfs/made")).unwrap();
    fs::write(bundle.join("rootfs/made/file"), "").unwrap();
    chown(bundle.join("rootfs/made/file"), Some(5), Some(6)).unwrap();
    fs::set_permissions(bundle.join("rootfs/made/file"), Permissions::from_mode(0o4755)).unwrap();
    let sandbox = host.create_in(&pod, &id, &bundle).unwrap_or_else(|error| panic!("{error}"));
    host.start(&sandbox);
    pod.init = Some(sandbox.pid);
    let script =
        "stat -c %u:%g:%a /made /made/file; touch /made/x && ls /dev/mqueue; cat /proc/sys/kernel/hostname";
    assert_eq!(
        host.exec(&pod, &sandbox, (0, script)).lines().collect::<Vec<_>>(),
        ["0:0:755", "5:6:4755", "ward"]
    );
    let said = host.run(&pod, |spec| {
        by_path(spec);
        spec::script(spec, 0, "readlink /proc/self/ns/ipc; readlink /proc/self/ns/uts");
    });
    let space =
        |kind: &NamespaceKind| fs::read_link(format!("/proc/{}/ns/{}", sandbox.pid, kind.file())).unwrap();
    let of_sandbox: Vec<String> = kinds.iter().map(|kind| space(kind).display().to_string()).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), of_sandbox);
}
