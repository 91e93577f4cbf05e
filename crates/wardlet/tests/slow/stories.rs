//! The five stories of the user namespace proposal, each with an isolated pod and with one that is not, on the
//! built-in runtime and on containerd. Loading a real module takes a kernel that has some: that half of story 2 is
//! in the VM's tests.

use crate::stage;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use stage::calls::{are_as_planned, are_as_the_kernel_shows};
use stage::{By, Play, Stage, on_each_runtime, refused, text, to_its_end};

on_each_runtime! {
    a_fuse_mount_works_inside_and_the_hosts_mounts_are_out_of_reach
    a_tunnel_works_inside_and_the_hosts_interfaces_are_out_of_reach
    isolate_leaves_a_pod_that_loads_modules_and_says_why
    root_inside_is_its_block_outside
    user_1000_inside_cannot_read_a_file_of_host_user_1000
    two_pods_of_user_1000_cannot_signal_attach_to_or_read_each_other
    an_isolated_pod_with_the_hosts_processes_is_refused
    a_device_of_the_host_itself_is_not_given_to_pods
}

fn as_it_is(text: &str) -> String {
    text.to_owned()
}

fn not_isolated(text: &str) -> String {
    let changed = text.replace("  hostUsers: false\n", "  hostUsers: true\n");
    assert_ne!(changed, text, "it is not isolated as it is");
    changed
}

/// Whose users a story is played with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    Own,
    Hosts,
}

impl Users {
    const BOTH: [Self; 2] = [Self::Own, Self::Hosts];

    fn of(self, text: &str) -> String {
        if self == Self::Own { as_it_is(text) } else { not_isolated(text) }
    }
}

fn user_namespace(pid: &str) -> std::path::PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/user")).unwrap()
}

/// A command in the host's mounts and network with the user and the capability of a pod's process, as if that had
/// got out of all its other namespaces.
fn broken_out(stage: &Stage, (pid, capability): (u32, &str), words: &[&str]) -> Output {
    let pid = pid.to_string();
    if user_namespace(&pid) == user_namespace("self") {
        let only = format!("-all,+{capability}");
        let held = ["--bounding-set", &only, "--inh-caps", &only, "--"];
        return stage.inside("setpriv", &[&held, words].concat()).output().unwrap();
    }
    let entered = ["--target", &pid, "--user", "--"];
    stage.inside("nsenter", &[&entered, words].concat()).output().unwrap()
}

fn mounts(stage: &Stage) -> String {
    text(&stage.inside("cat", &["/proc/self/mounts"]).output().unwrap())
}

/// On containerd a pod has the node's own file of the device, which udev leaves open to everybody and a bare kernel
/// does not. Only the testbed sees the change.
fn open_to_everybody(stage: &Stage, device: &str) {
    if stage.by == By::BuiltIn {
        return;
    }
    let numbers = std::fs::metadata(device).unwrap().rdev();
    let node = stage.path(&device.replace('/', "-"));
    let (major, minor) = (rustix::fs::major(numbers).to_string(), rustix::fs::minor(numbers).to_string());
    let name = node.to_str().unwrap();
    for words in
        [vec!["mknod", "-m", "666", name, "c", &major, &minor], vec!["mount", "--bind", name, device]]
    {
        let done = stage.inside(words[0], &words[1..]).output().unwrap();
        assert!(done.status.success(), "{}", text(&done));
    }
}

fn a_fuse_mount_works_inside_and_the_hosts_mounts_are_out_of_reach(stage: &Stage) {
    open_to_everybody(stage, "/dev/fuse");
    let target = stage.path("mount-here");
    std::fs::create_dir_all(&target).unwrap();
    let target = target.to_str().unwrap();
    let mount = ["mount", "-t", "tmpfs", "of-the-pod", target];
    for users in Users::BOTH {
        let is_hosts = users == Users::Hosts;
        let file = stage.example("stories/1-fuse.yaml", |text| users.of(text));
        let mut play = Play::start(stage, &file, &[]);
        play.await_out("fuse/main | listed: hello");
        play.await_out("fuse/main | read: hello from a filesystem of the pod's own");
        assert!(!mounts(stage).contains("fuse.hello"), "it is the pod's alone");
        let process = (play.process("fuse", "hello-fuse"), "sys_admin");
        let mounted = broken_out(stage, process, &mount);
        assert_eq!(mounted.status.success(), is_hosts, "{}", text(&mounted));
        assert_eq!(mounts(stage).contains("of-the-pod"), is_hosts);
        if !is_hosts {
            assert!(stage.inside("mount", &mount[1..]).status().unwrap().success());
        }
        let unmounted = broken_out(stage, process, &["umount", target]);
        assert_eq!(unmounted.status.success(), is_hosts, "{}", text(&unmounted));
        assert_eq!(mounts(stage).contains("of-the-pod"), !is_hosts);
        if !is_hosts {
            assert!(stage.inside("umount", &[target]).status().unwrap().success());
        }
        are_as_planned(stage, &file);
        play.end();
    }
}

fn a_tunnel_works_inside_and_the_hosts_interfaces_are_out_of_reach(stage: &Stage) {
    open_to_everybody(stage, "/dev/net/tun");
    let addresses = || text(&stage.inside("ip", &["address"]).output().unwrap());
    for users in Users::BOTH {
        let is_hosts = users == Users::Hosts;
        let file = stage.example("stories/1-tunnel.yaml", |text| users.of(text));
        let mut play = Play::start(stage, &file, &[]);
        play.await_out("tunnel/main | through the tunnel: 1 packets received");
        assert!(!addresses().contains("ward0"), "{}", addresses());
        let process = (play.process("tunnel", "tunnel"), "net_admin");
        let address = if stage.by == By::BuiltIn { "192.0.2.9/32" } else { "192.0.2.10/32" };
        let added = broken_out(stage, process, &["ip", "address", "add", address, "dev", "lo"]);
        assert_eq!(added.status.success(), is_hosts, "{}", text(&added));
        assert_eq!(addresses().contains(address), is_hosts, "{}", addresses());
        if is_hosts {
            assert!(
                stage.inside("ip", &["address", "del", address, "dev", "lo"]).status().unwrap().success()
            );
        }
        are_as_planned(stage, &file);
        play.end();
    }
}

fn isolate_leaves_a_pod_that_loads_modules_and_says_why(stage: &Stage) {
    std::fs::create_dir_all(stage.srv().join("modules")).unwrap();
    let unsaid = |text: &str| {
        text.replace("  hostUsers: true\n", "").replace("insmod", "cat /proc/self/uid_map; insmod")
    };
    let file = stage.example("stories/2-module.yaml", unsaid);
    let (code, said) = to_its_end(stage, &file, &["--isolate"]);
    assert_ne!(code, 0, "there is no such module: {said}");
    assert!(said.contains("4294967295"), "it has the host's users: {said}");
    let left = "default/module keeps the host's users: ";
    let why = said.lines().find(|line| line.contains(left)).unwrap_or_else(|| panic!("{said}"));
    assert!(why.contains("container main has SYS_MODULE, worth less in a user namespace"), "{why}");
}

fn root_inside_is_its_block_outside(stage: &Stage) {
    for users in Users::BOTH {
        let is_isolated = users == Users::Own;
        let file = stage.example("stories/3-root-inside.yaml", |text| users.of(text));
        let mut play = Play::start(stage, &file, &[]);
        play.await_out("root-inside/main | its file: 0:0:4755");
        assert!(play.out().contains("root-inside/main | inside: 0:0"), "{}", play.said());
        let pod = play.await_running("root-inside");
        let first = pod["uidMappings"][0]["hostId"].as_u64().unwrap_or(0);
        assert_eq!(first >= 65_536, is_isolated, "{pod}");
        play.await_that("it sleeps", |play| play.find("root-inside", "sleep").is_some());
        let pid = play.process("root-inside", "sleep");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for kind in ["Uid", "Gid"] {
            let ids = status.lines().find_map(|line| line.strip_prefix(&format!("{kind}:"))).unwrap();
            assert!(ids.split_whitespace().all(|id| id == first.to_string()), "{kind} {ids}, not {first}");
        }
        let file_of_root = std::fs::metadata(format!("/proc/{pid}/root/tmp/suid")).unwrap();
        assert_eq!(u64::from(file_of_root.uid()), first, "a set-user-ID file of the pod's is the pod's");
        let report = stage.json(&["verify", "root-inside", "--runtime-endpoint", &stage.endpoint()]);
        assert_eq!(report["holds"], true, "{report:#}");
        let verdict = if is_isolated { "isolated" } else { "notIsolated" };
        assert_eq!(report["pods"][0]["verdict"], verdict, "{report:#}");
        are_as_planned(stage, &file);
        are_as_the_kernel_shows(stage, &file);
        play.end();
    }
}

fn user_1000_inside_cannot_read_a_file_of_host_user_1000(stage: &Stage) {
    let overlay = stage.data_on_an_overlay();
    let private = overlay.upper.join("private");
    std::fs::write(&private, "for host user 1000 only\n").unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
    chown(&private, Some(1000), Some(1000)).unwrap();
    stage.with_a_shared_block(|| {
        let file = stage.example("stories/4-host-file.yaml", as_it_is);
        let (code, said) = to_its_end(stage, &file, &[]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("host-file/main | as 1000, a file of 65534:600"), "{said}");
        assert!(said.contains("/data/private: Permission denied") || said.contains("can't open"), "{said}");
        assert!(!said.contains("for host user 1000 only"), "{said}");
        are_as_planned(stage, &file);

        let file = stage.example("stories/4-host-file.yaml", not_isolated);
        let (code, said) = to_its_end(stage, &file, &[]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("host-file/main | as 1000, a file of 1000:600"), "{said}");
        assert!(said.contains("host-file/main | for host user 1000 only"), "{said}");
        are_as_planned(stage, &file);
    });
    let owner = std::fs::metadata(&private).unwrap();
    assert_eq!((owner.uid(), owner.mode() & 0o7777), (1000, 0o600), "nothing on disk has changed");
}

/// A command as user 1000 of this pod among the host's processes, as if it had got out of its own; in its own files
/// or in the host's.
fn as_user_of(stage: &Stage, pid: u32, files: Files, words: &[&str]) -> Output {
    let pid = pid.to_string();
    let mount: &[&str] = if files == Files::Pods { &["--mount"] } else { &[] };
    let entered = ["--target", &pid, "--user", "--setuid", "1000", "--setgid", "1000"];
    stage.inside("nsenter", &[&entered, mount, &["--"], words].concat()).output().unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Pods,
    Hosts,
}

fn two_pods_of_user_1000_cannot_signal_attach_to_or_read_each_other(stage: &Stage) {
    let file = stage.example("stories/5-two-pods.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    for name in ["alice", "bob"] {
        play.await_running(name);
    }
    let (alice, bob) = (play.process("alice", "sleep"), play.process("bob", "sleep"));
    for (one, other) in [(alice, bob), (bob, alice)] {
        let (own, pid) = (one.to_string(), other.to_string());
        let environ = |pid: &str| format!("/proc/{pid}/environ");
        // The same, done to itself, works: it is the other's that cannot be reached.
        let kill = as_user_of(stage, one, Files::Pods, &["/bin/kill", "-0", &own]);
        assert!(kill.status.success(), "{}", text(&kill));
        let read = as_user_of(stage, one, Files::Hosts, &["cat", &environ(&own)]);
        assert!(text(&read).contains("SECRET=of "), "{}", text(&read));
        let attached = as_user_of(stage, one, Files::Pods, &["/bin/attach", &own]);
        assert!(text(&attached).contains("attached"), "{}", text(&attached));

        let words = refused(&as_user_of(stage, one, Files::Pods, &["/bin/kill", "-0", &pid]));
        assert!(words.contains("Operation not permitted"), "{words}");
        let words = refused(&as_user_of(stage, one, Files::Pods, &["/bin/attach", &pid]));
        assert!(words.contains("Operation not permitted"), "{words}");
        let words = refused(&as_user_of(stage, one, Files::Hosts, &["cat", &environ(&pid)]));
        assert!(words.contains("Permission denied"), "{words}");
        let words = refused(&as_user_of(stage, one, Files::Hosts, &["ls", &format!("/proc/{pid}/root/")]));
        assert!(words.contains("Permission denied"), "{words}");
    }
    are_as_planned(stage, &file);
    play.end();

    let file = stage.example("stories/5-two-pods.yaml", |text| {
        not_isolated(text).replace("  hostUsers: true\n", "  hostUsers: true\n  hostPID: true\n")
    });
    let mut play = Play::start(stage, &file, &[]);
    for name in ["alice", "bob"] {
        play.await_running(name);
    }
    let alice = play.process("alice", "sleep").to_string();
    let by_bob = |words: &[&str]| play.exec(&[&["bob", "--"], words].concat());
    let read = by_bob(&["cat", &format!("/proc/{alice}/environ")]);
    assert!(text(&read).contains("SECRET=of alice"), "{}", text(&read));
    let attached = by_bob(&["attach", &alice]);
    assert!(text(&attached).contains("attached"), "{}", text(&attached));
    let killed = by_bob(&["kill", "-KILL", &alice]);
    assert!(killed.status.success(), "{}", text(&killed));
    let was_ended = |play: &Play<'_>| play.container("alice", "main").is_some_and(|c| c["restarts"] != 0);
    play.await_that("alice was ended by bob", was_ended);
    are_as_planned(stage, &file);
    play.end();
}

fn an_isolated_pod_with_the_hosts_processes_is_refused(stage: &Stage) {
    let file = stage.example("stories/5-two-pods.yaml", |text| {
        text.replace("  hostUsers: false\n", "  hostUsers: false\n  hostPID: true\n")
    });
    let words = refused(&stage.run(&file, &[]).output().unwrap());
    assert!(words.contains("hostPID") && words.contains("nothing was started"), "{words}");
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{words}");
}

fn a_device_of_the_host_itself_is_not_given_to_pods(stage: &Stage) {
    let file =
        stage.example("stories/1-fuse.yaml", |text| text.replace(": /dev/fuse", ": /dev/fuse,/dev/mem"));
    let words = refused(&stage.run(&file, &[]).output().unwrap());
    let place = format!("{}:", Path::new(&file).display());
    assert!(
        words.contains(&place) && words.contains("\"/dev/mem\" is not one of /dev/fuse, /dev/net/tun"),
        "{words}"
    );
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{words}");
}
