//! What a container shares, with whom, and what it may do, as it sees it itself.

use crate::support;

use cgroups::{Group, Hierarchies};
use cri::NamespaceMode;
use cri::client::Client;
use cri::{Code, Status};
use support::pods::{
    create, ended, exec, in_users, logged, options, pod, remove_pod, run_pod, run_shell, security, shell,
    start, status,
};
use support::{House, Options, until};

const FIRST: u32 = 1_310_720_000;

async fn says(client: &Client, container: &str, script: &str) -> String {
    let answer = exec(client, container, script).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{script}: {}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap()
}

/// All that this kernel knows: what the first process of a user namespace has in it.
fn all_capabilities() -> u64 {
    let last: u32 = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap().trim().parse().unwrap();
    (1 << (last + 1)) - 1
}

/// All that can be had here, which may be less.
fn own_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let bound = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
    u64::from_str_radix(bound.trim(), 16).unwrap()
}

/// One more container of a pod, started.
async fn add(
    client: &Client,
    sandbox: &str,
    config: &cri::ContainerConfig,
    pod: &cri::PodSandboxConfig,
) -> Result<String, Status> {
    let container = create(client, sandbox, config, pod).await?;
    start(client, &container).await?;
    Ok(container)
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_with_shared_processes_see_each_other_and_leave_no_dead() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    for (name, users) in [("mapped", true), ("plain", false)] {
        let mut config = pod(&house, name);
        if users {
            config = in_users(config, FIRST);
        }
        options(&mut config).pid = NamespaceMode::Pod.into();
        let (sandbox, one) = run_shell(&client, &config, "sleep 1111; exit 3").await.unwrap();
        // Each of these processes loses its parent and dies later.
        let orphans = "for n in 1 2 3; do (sleep 0.1 &); done; exec sleep 2222";
        let two = add(&client, &sandbox, &shell("two", orphans, &config), &config).await.unwrap();
        let all = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
        for container in [&one, &two] {
            let seen = says(&client, container, all).await;
            assert!(seen.contains("sleep 1111") && seen.contains("sleep 2222"), "{seen}");
        }
        let dead = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true";
        until("the dead are gone", async || (says(&client, &one, dead).await == "0\n").then_some(())).await;
        assert_eq!(
            says(&client, &one, "cat /proc/1/stat | cut -d' ' -f4").await,
            "0\n",
            "the pod's own first"
        );
        assert_ne!(says(&client, &one, "echo $$").await, "1\n");
        says(&client, &two, "kill $(pidof sleep | tr ' ' '\\n' | sort -n | head -n 1)").await;
        assert_eq!(ended(&client, &one).await.exit_code, 3, "one ends the other's process");
        assert_eq!(status(&client, &two).await.unwrap().state(), cri::ContainerState::ContainerRunning);
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_looks_into_its_target_and_no_other() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "target"), FIRST);
    let (sandbox, target) = run_shell(&client, &config, "echo up; exec sleep 1111").await.unwrap();
    let into = |name: &str, id: &str| {
        let mut config = shell(name, "exec sleep 2222", &config);
        let options = security(&mut config).namespace_options.as_mut().unwrap();
        (options.pid, options.target_id) = (NamespaceMode::Target.into(), id.to_owned());
        config
    };
    let debugger = add(&client, &sandbox, &into("debugger", &target), &config).await.unwrap();
    let seen =
        says(&client, &debugger, "cat /proc/1/cmdline | tr '\\0' ' '; readlink /proc/self/ns/pid").await;
    let own = says(&client, &target, "readlink /proc/self/ns/pid").await;
    assert_eq!(seen, format!("sleep 1111 {own}"));
    let other = pod(&house, "other");
    let (other_pod, foreign) = run_shell(&client, &other, "sleep 1000").await.unwrap();
    for wrong in [foreign.as_str(), "nobody", ""] {
        let refused = create(&client, &sandbox, &into("wrong", wrong), &config).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("target_id"), "{refused}");
    }
    for sandbox in [&sandbox, &other_pod] {
        remove_pod(&client, sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_namespaces_are_given_to_whoever_asks_unless_users_are_the_pods_own() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let mut config = pod(&house, "host");
    (options(&mut config).pid, options(&mut config).ipc) =
        (NamespaceMode::Node.into(), NamespaceMode::Node.into());
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let seen = says(&client, &container, "readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc").await;
    let ours = ["pid", "ipc"].map(|kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
    assert_eq!(seen, ours.map(|link| format!("{}\n", link.display())).concat());
    let processes = says(&client, &container, &format!("cat /proc/{}/comm", std::process::id())).await;
    assert_eq!(processes, std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap());
    assert_eq!(
        says(&client, &container, "stat -c %d /dev/shm").await.trim(),
        std::os::unix::fs::MetadataExt::dev(&std::fs::metadata("/dev/shm").unwrap()).to_string()
    );
    remove_pod(&client, &sandbox).await;
    for kind in ["pid", "ipc"] {
        let mut mapped = in_users(pod(&house, kind), FIRST);
        let options = options(&mut mapped);
        let mode = if kind == "pid" { &mut options.pid } else { &mut options.ipc };
        *mode = NamespaceMode::Node.into();
        let refused = match run_shell(&client, &mapped, "true").await {
            Ok(_) => panic!("the host's {kind} was given to a pod with users of its own"),
            Err(refused) => refused,
        };
        assert!(refused.message().contains(kind), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_kernel_are_the_pods_own() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let mut config = in_users(pod(&house, "sysctls"), FIRST);
    let given = [("net.ipv4.ip_unprivileged_port_start", "1234"), ("kernel.shm_rmid_forced", "1")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    config.linux.as_mut().unwrap().sysctls = given.into();
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let look = "cd /proc/sys; cat net/ipv4/ip_unprivileged_port_start kernel/shm_rmid_forced net/ipv4/ping_group_range";
    assert_eq!(says(&client, &container, look).await, "1234\n1\n0\t65535\n");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/shm_rmid_forced").unwrap(), "0\n");
    remove_pod(&client, &sandbox).await;
    let plain = in_users(pod(&house, "plain"), FIRST);
    let (sandbox, container) = run_shell(&client, &plain, "sleep 1000").await.unwrap();
    assert_eq!(says(&client, &container, look).await, "0\n0\n0\t65535\n");
    remove_pod(&client, &sandbox).await;
    let linux = config.linux.as_mut().unwrap();
    linux.sysctls = [("kernel.panic".to_owned(), "1".to_owned())].into();
    let refused = run_pod(&client, &config).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("kernel.panic"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_shared_among_the_containers_of_a_pod() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    for (name, users) in [("mapped", true), ("plain", false)] {
        let mut config = pod(&house, name);
        if users {
            config = in_users(config, FIRST);
        }
        let (sandbox, one) =
            run_shell(&client, &config, "echo word > /dev/shm/file; sleep 1000").await.unwrap();
        let two = add(&client, &sandbox, &shell("two", "sleep 1000", &config), &config).await.unwrap();
        let seen = "cat /dev/shm/file 2>/dev/null || true";
        until("it is there", async || (says(&client, &two, seen).await == "word\n").then_some(())).await;
        let look = "stat -c '%u %g %a' /dev/shm; df -k /dev/shm | tail -n 1 | tr -s ' ' | cut -d' ' -f2";
        assert_eq!(says(&client, &one, look).await, "0 0 1777\n65536\n");
        assert_eq!(
            says(&client, &two, "readlink /proc/self/ns/ipc").await,
            says(&client, &one, "readlink /proc/self/ns/ipc").await
        );
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containers_user_and_groups_are_as_asked() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "users"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    for (name, policy, groups) in [
        ("merge", cri::SupplementalGroupsPolicy::Merge, vec![1000_u32, 2000, 3000]),
        ("strict", cri::SupplementalGroupsPolicy::Strict, vec![1000, 2000]),
    ] {
        let mut wanted = shell(name, "id -u; id -g; id -G; exec sleep 1000", &config);
        let of = security(&mut wanted);
        of.run_as_user = Some(cri::Int64Value { value: 1000 });
        of.run_as_group = Some(cri::Int64Value { value: 1000 });
        of.supplemental_groups = vec![2000];
        of.supplemental_groups_policy = policy.into();
        let container = add(&client, &sandbox, &wanted, &config).await.unwrap();
        until("it speaks", async || (logged(&house, "users", name).lines().count() == 3).then_some(())).await;
        let sorted = |text: &str| {
            let mut all: Vec<u32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
            all.sort_unstable();
            all
        };
        let log = logged(&house, "users", name);
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!((lines[0], lines[1], sorted(lines[2])), ("1000", "1000", groups.clone()), "{name}");
        let mut exec = says(&client, &container, "id -u; id -G").await;
        assert_eq!(sorted(&exec.split_off(5)), groups, "{name}: a command has the container's groups");
        let told = status(&client, &container).await.unwrap().user.unwrap().linux.unwrap();
        let mut of_status: Vec<i64> = told.supplemental_groups.clone();
        of_status.push(told.gid);
        of_status.sort_unstable();
        of_status.dedup();
        assert_eq!(told.uid, 1000);
        assert_eq!(of_status, groups.into_iter().map(i64::from).collect::<Vec<_>>(), "{name}");
    }
    let mut beyond = shell("beyond", "true", &config);
    security(&mut beyond).supplemental_groups = vec![100_000];
    let refused = create(&client, &sandbox, &beyond, &config).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("supplemental_groups"), "{refused}");
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_is_read_only_leaves_only_volumes_to_write_to() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "volume"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let mut wanted = shell("main", "exec sleep 1000", &config);
    wanted.image = Some(cri::ImageSpec { image: support::image::VOLUME.into(), ..Default::default() });
    security(&mut wanted).readonly_rootfs = true;
    let container = add(&client, &sandbox, &wanted, &config).await.unwrap();
    for path in ["/file", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd"] {
        let answer = exec(&client, &container, &format!("echo x >> {path}")).await.unwrap();
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.exit_code != 0 && said.contains("Read-only"), "{path}: {said}");
    }
    assert_eq!(says(&client, &container, "stat -c '%u' /data/seed").await, "1000\n");
    let write = "echo x > /data/new; echo x > /dev/shm/new; stat -c %u /data/new; cat /data/new";
    assert_eq!(says(&client, &container, write).await, "0\nx\n");
    let kept = house.state().join("runtime/containers").join(&container).join("volumes/0/new");
    assert!(kept.exists(), "{}", kept.display());
    remove_pod(&client, &sandbox).await;
    assert!(!kept.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_privileged_container_has_all_that_its_user_namespace_can_give() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    for (name, users) in [("plain", false), ("mapped", true)] {
        let mut config = pod(&house, name);
        if users {
            config = in_users(config, FIRST);
        }
        let plain = run_pod(&client, &config).await.unwrap();
        let mut wanted = shell("main", "exec sleep 1000", &config);
        security(&mut wanted).privileged = true;
        let refused = create(&client, &plain, &wanted, &config).await.unwrap_err();
        assert!(refused.message().contains("privileged"), "{refused}");
        remove_pod(&client, &plain).await;
        config.linux.as_mut().unwrap().security_context.as_mut().unwrap().privileged = true;
        let sandbox = run_pod(&client, &config).await.unwrap();
        let container = add(&client, &sandbox, &wanted, &config).await.unwrap();
        let has = says(&client, &container, "grep CapEff /proc/self/status").await;
        let has = u64::from_str_radix(has.trim().trim_start_matches("CapEff:").trim(), 16).unwrap();
        assert_eq!(has, if users { all_capabilities() } else { own_capabilities() }, "{name}");
        let work = "mkdir /m && mount -t tmpfs none /m && echo x > /m/file && echo x > /dev/null && \
                    grep -c ' /proc/' /proc/self/mounts || true; grep Seccomp: /proc/self/status";
        assert_eq!(says(&client, &container, work).await, "0\nSeccomp:\t0\n", "{name}: nothing is hidden");
        // A device that no other container has.
        let device = exec(&client, &container, "stat -c %F /dev/kmsg").await.unwrap();
        assert_eq!(String::from_utf8_lossy(&device.stdout), "character special file\n", "{name}");
        let map = says(&client, &container, "cat /proc/self/uid_map").await;
        assert_eq!(map.split_whitespace().nth(1).unwrap() == "0", !users, "{name}: {map}");
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_there_and_no_others() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    for (name, users) in [("plain", false), ("mapped", true)] {
        let mut config = pod(&house, name);
        if users {
            config = in_users(config, FIRST);
        }
        let sandbox = run_pod(&client, &config).await.unwrap();
        let mut wanted = shell("main", "exec sleep 1000", &config);
        wanted.devices = vec![cri::Device {
            container_path: "/dev/mine/fuse".into(),
            host_path: "/dev/fuse".into(),
            permissions: "r".into(),
        }];
        let container = add(&client, &sandbox, &wanted, &config).await.unwrap();
        let usual = "for d in null zero full random urandom tty; do test -c /dev/$d || echo $d; done; \
                     head -c 3 /dev/zero | wc -c; ls -d /dev/fuse /dev/mem 2>/dev/null || true";
        assert_eq!(says(&client, &container, usual).await, "3\n", "{name}");
        let kind = says(&client, &container, "stat -c '%F %t:%T' /dev/mine/fuse").await;
        assert_eq!(kind, "character special file a:e5\n", "{name}");
        says(&client, &container, ": < /dev/mine/fuse").await;
        let written = exec(&client, &container, ": >> /dev/mine/fuse").await.unwrap();
        let said = String::from_utf8_lossy(&written.stderr);
        assert!(said.contains("not permitted"), "{name}: it is only to be read: {said}");
        if !users {
            let other =
                exec(&client, &container, "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem").await.unwrap();
            let said = String::from_utf8_lossy(&other.stderr);
            assert!(said.contains("not permitted") || said.contains("denied"), "{said}");
        }
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_group_that_the_caller_made_is_used_and_left() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let parent = format!("{}/callers/pod1", house.cgroup);
    let group = Group::open(&Hierarchies::find().unwrap(), &parent).unwrap();
    group.make().unwrap();
    let mut config = in_users(pod(&house, "given"), FIRST);
    config.linux.as_mut().unwrap().cgroup_parent = parent.clone();
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let below = Group::open(&Hierarchies::find().unwrap(), &format!("{parent}/{container}")).unwrap();
    assert_eq!(below.processes().unwrap().len(), 1);
    remove_pod(&client, &sandbox).await;
    assert!(group.exists() && !below.exists());
    group.remove().unwrap();
    config.linux.as_mut().unwrap().cgroup_parent = "kubepods-pod1.slice".into();
    let refused = run_pod(&client, &config).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("cgroup_parent"), "{refused}");
}
