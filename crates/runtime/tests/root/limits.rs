//! Limits as the kernel has them, and use as it is told.

use crate::support;

use cgroups::{Group, Hierarchies};
use cri::Code;
use support::pods::{create, ended, exec, in_users, pod, remove_pod, run_pod, shell, start, status};
use support::{House, Options, until};

const FIRST: u32 = 1_310_720_000;
const MIB: i64 = 1 << 20;

/// The first of these files that the control group has, in whichever hierarchy.
fn limit(path: &str, files: &[&str]) -> String {
    let group = Group::open(&Hierarchies::find().unwrap(), path).unwrap();
    let read = |file: &&str| group.dirs().find_map(|dir| std::fs::read_to_string(dir.join(file)).ok());
    files.iter().find_map(read).unwrap_or_else(|| panic!("{path} has none of {files:?}")).trim().to_owned()
}

fn memory(path: &str) -> String {
    limit(path, &["memory.limit_in_bytes", "memory.max"])
}

/// What may be swapped beyond the limit of memory.
fn swap(path: &str) -> String {
    let both = limit(path, &["memory.memsw.limit_in_bytes", "memory.swap.max"]);
    if both == memory(path) { "0".to_owned() } else { both }
}

/// Quota and period.
fn quota(path: &str) -> String {
    let group = Group::open(&Hierarchies::find().unwrap(), path).unwrap();
    if group.dirs().any(|dir| dir.join("cpu.max").exists()) {
        return limit(path, &["cpu.max"]);
    }
    format!("{} {}", limit(path, &["cpu.cfs_quota_us"]), limit(path, &["cpu.cfs_period_us"]))
}

/// The weight among others, in the form of this host's control groups.
fn weight(path: &str, shares: u64) -> bool {
    let of_v2 = (1 + (shares - 2) * 9999 / 262_142).to_string();
    [shares.to_string(), of_v2].contains(&limit(path, &["cpu.shares", "cpu.weight"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_from_the_start_and_change_while_it_runs() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "limits"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let mut wanted = shell("main", "sleep 1000", &config);
    wanted.linux.as_mut().unwrap().resources = Some(cri::LinuxContainerResources {
        cpu_shares: 512,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        memory_limit_in_bytes: 64 * MIB,
        oom_score_adj: 500,
        unified: [("pids.max".to_owned(), "50".to_owned())].into(),
        ..Default::default()
    });
    let container = create(&client, &sandbox, &wanted, &config).await.unwrap();
    let change = |resources| cri::UpdateContainerResourcesRequest {
        container_id: container.clone(),
        linux: Some(resources),
        ..Default::default()
    };
    let more = cri::LinuxContainerResources { memory_limit_in_bytes: 96 * MIB, ..Default::default() };
    client.runtime().update_container_resources(change(more)).await.unwrap();
    start(&client, &container).await.unwrap();
    let group = format!("{}/{sandbox}/{container}", house.cgroup);
    assert_eq!((memory(&group), quota(&group)), ((96 * MIB).to_string(), "50000 100000".to_owned()));
    assert!(weight(&group, 512));
    assert_eq!(swap(&group), "0", "memory that is limited is not swapped instead");
    assert_eq!(limit(&group, &["pids.max"]), "50");
    let score = exec(&client, &container, "cat /proc/1/oom_score_adj").await.unwrap();
    assert_eq!(score.stdout, b"500\n");

    let other = cri::LinuxContainerResources {
        cpu_quota: 70_000,
        cpu_shares: 1024,
        memory_limit_in_bytes: 128 * MIB,
        ..Default::default()
    };
    client.runtime().update_container_resources(change(other)).await.unwrap();
    assert_eq!((memory(&group), quota(&group)), ((128 * MIB).to_string(), "70000 100000".to_owned()));
    assert!(weight(&group, 1024));
    assert_eq!(limit(&group, &["pids.max"]), "50", "what is not said stays");
    let less = cri::LinuxContainerResources { memory_limit_in_bytes: 48 * MIB, ..Default::default() };
    client.runtime().update_container_resources(change(less)).await.unwrap();
    assert_eq!((memory(&group), swap(&group)), ((48 * MIB).to_string(), "0".to_owned()));
    let told = status(&client, &container).await.unwrap().resources.unwrap().linux.unwrap();
    assert_eq!((told.memory_limit_in_bytes, told.cpu_quota, told.cpu_period), (48 * MIB, 70_000, 100_000));
    assert_eq!((told.cpu_shares, told.unified["pids.max"].as_str()), (1024, "50"));
    // The limit of processes is felt.
    let many = exec(&client, &container, "for n in $(seq 60); do sleep 5 & done").await.unwrap();
    assert!(String::from_utf8_lossy(&many.stderr).contains("fork"), "{many:?}");
    support::pods::stop(&client, &container, 0).await.unwrap();
    let late = cri::LinuxContainerResources { cpu_quota: 10_000, ..Default::default() };
    let late = client.runtime().update_container_resources(change(late)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_has_limits_of_its_own_with_what_is_beside_its_containers() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let mut config = in_users(pod(&house, "pod"), FIRST);
    let of = |memory: i64, quota: i64, period: i64| {
        Some(cri::LinuxContainerResources {
            memory_limit_in_bytes: memory * MIB,
            cpu_quota: quota,
            cpu_period: period,
            ..Default::default()
        })
    };
    let linux = config.linux.as_mut().unwrap();
    (linux.resources, linux.overhead) = (of(100, 50_000, 100_000), of(20, 10_000, 50_000));
    let sandbox = run_pod(&client, &config).await.unwrap();
    let group = format!("{}/{sandbox}", house.cgroup);
    assert_eq!((memory(&group), quota(&group)), ((120 * MIB).to_string(), "70000 100000".to_owned()));
    let change = |overhead, resources| cri::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: sandbox.clone(),
        overhead,
        resources,
    };
    client.runtime().update_pod_sandbox_resources(change(None, of(200, 80_000, 100_000))).await.unwrap();
    assert_eq!((memory(&group), quota(&group)), ((220 * MIB).to_string(), "100000 100000".to_owned()));
    client.runtime().update_pod_sandbox_resources(change(of(30, 0, 0), None)).await.unwrap();
    assert_eq!(memory(&group), (230 * MIB).to_string());
    let mut wrong = change(None, of(1, 0, 0));
    wrong.resources.as_mut().unwrap().cpu_shares = -1;
    let refused = client.runtime().update_pod_sandbox_resources(wrong).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("resources.cpu_shares"), "{refused}");
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_wants_too_much_memory_is_said_to_be_killed_for_it() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "oom"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let mut wanted = shell("main", "exec tail /dev/zero", &config);
    wanted.linux.as_mut().unwrap().resources =
        Some(cri::LinuxContainerResources { memory_limit_in_bytes: 32 * MIB, ..Default::default() });
    let container = create(&client, &sandbox, &wanted, &config).await.unwrap();
    start(&client, &container).await.unwrap();
    let found = ended(&client, &container).await;
    assert_eq!((found.exit_code, found.reason.as_str()), (137, "OOMKilled"));
    let killed = create(&client, &sandbox, &shell("killed", "kill -9 $$; sleep 1000", &config), &config)
        .await
        .unwrap();
    start(&client, &killed).await.unwrap();
    support::pods::stop(&client, &killed, 0).await.unwrap();
    let found = ended(&client, &killed).await;
    assert_eq!((found.exit_code, found.reason.as_str()), (137, "Error"), "killed, but not for that");
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pods_use_is_counted() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "stats"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let work = "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done; head -c 1048576 /dev/zero > /file; echo done; sleep 1000";
    let mut wanted = shell("main", work, &config);
    wanted.labels = [("app".to_owned(), "stats".to_owned())].into();
    let container = create(&client, &sandbox, &wanted, &config).await.unwrap();
    start(&client, &container).await.unwrap();
    let done = || support::pods::logged(&house, "stats", "main") == "done\n";
    until("it has worked", async || done().then_some(())).await;

    let request = cri::ContainerStatsRequest { container_id: container.clone() };
    let told = client.runtime().container_stats(request).await.unwrap().into_inner().stats.unwrap();
    let attributes = told.attributes.clone().unwrap();
    assert_eq!((attributes.id, attributes.labels["app"].as_str()), (container.clone(), "stats"));
    assert!(told.cpu.unwrap().usage_core_nano_seconds.unwrap().value > 1_000_000);
    let memory = told.memory.unwrap();
    assert!(memory.usage_bytes.unwrap().value >= memory.working_set_bytes.unwrap().value);
    assert!(memory.working_set_bytes.unwrap().value > 0);
    assert!(told.writable_layer.unwrap().used_bytes.unwrap().value >= 1 << 20);

    let filter = |key: &str| cri::ContainerStatsFilter {
        label_selector: [("app".to_owned(), key.to_owned())].into(),
        ..Default::default()
    };
    for (label, count) in [("stats", 1), ("other", 0)] {
        let request = cri::ListContainerStatsRequest { filter: Some(filter(label)) };
        let listed = client.runtime().list_container_stats(request).await.unwrap().into_inner().stats;
        assert_eq!(listed.len(), count, "{label}");
    }
    let request = cri::PodSandboxStatsRequest { pod_sandbox_id: sandbox.clone() };
    let told = client.runtime().pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    let linux = told.linux.unwrap();
    assert_eq!(linux.containers.len(), 1);
    assert!(linux.process.unwrap().process_count.unwrap().value >= 1);
    assert!(linux.cpu.unwrap().usage_core_nano_seconds.unwrap().value > 1_000_000);
    assert!(linux.memory.unwrap().usage_bytes.unwrap().value > 0);

    let descriptors = client.runtime().list_metric_descriptors(cri::ListMetricDescriptorsRequest {}).await;
    let descriptors = descriptors.unwrap().into_inner().descriptors;
    let known: Vec<&str> = descriptors.iter().map(|descriptor| descriptor.name.as_str()).collect();
    let metrics = client.runtime().list_pod_sandbox_metrics(cri::ListPodSandboxMetricsRequest {}).await;
    let metrics = metrics.unwrap().into_inner().pod_metrics;
    assert_eq!((metrics.len(), metrics[0].pod_sandbox_id.as_str()), (1, sandbox.as_str()));
    assert_eq!(metrics[0].container_metrics[0].container_id, container);
    let of_container = &metrics[0].container_metrics[0].metrics;
    assert!(
        of_container.iter().chain(&metrics[0].metrics).all(|metric| known.contains(&metric.name.as_str()))
    );
    let cpu = of_container.iter().find(|metric| metric.name == "container_cpu_usage_seconds_total").unwrap();
    assert_eq!(cpu.label_values.len(), {
        let descriptor = descriptors.iter().find(|descriptor| descriptor.name == cpu.name).unwrap();
        descriptor.label_keys.len()
    });

    let told = client.images().image_fs_info(cri::ImageFsInfoRequest {}).await.unwrap().into_inner();
    let images = &told.image_filesystems[0];
    assert!(images.used_bytes.unwrap().value > 1 << 20 && images.inodes_used.unwrap().value > 10, "{told:?}");
    let mountpoint = images.fs_id.clone().unwrap().mountpoint;
    assert!(std::path::Path::new(&mountpoint).is_dir(), "{mountpoint}");
    remove_pod(&client, &sandbox).await;
    let request = cri::ContainerStatsRequest { container_id: container };
    assert_eq!(client.runtime().container_stats(request).await.unwrap_err().code(), Code::NotFound);
}
