//! Pods from beginning to end, through the socket of a real server.

use crate::support;

use cri::Code;
use cri::ContainerState;
use support::pods::{
    create, ended, exec, exec_within, in_users, logged, pod, remove_pod, run_pod, run_shell, sandbox_status,
    shell, start, status, stop,
};
use support::traces::Traces;
use support::{House, Options, RunDir, until};

const FIRST: u32 = 1_310_720_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_in_its_own_user_namespace_runs_and_leaves_nothing() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let before = Traces::of(&house);
    let config = in_users(pod(&house, "first"), FIRST);
    let script = "cat /proc/self/uid_map; id -u; stat -c %u /bin/busybox; hostname; exit 7";
    let (sandbox, container) = run_shell(&client, &config, script).await.unwrap();
    let found = ended(&client, &container).await;
    assert_eq!((found.exit_code, found.reason.as_str()), (7, "Error"), "{}", found.message);
    assert!(found.created_at <= found.started_at && found.started_at <= found.finished_at);
    let log = logged(&house, "first", "main");
    let words: Vec<&str> = log.split_whitespace().collect();
    assert_eq!(words, ["0", &FIRST.to_string(), "65536", "0", "0", "first"]);
    assert_ne!(Traces::of(&house), before, "a pod that is there is seen");
    remove_pod(&client, &sandbox).await;
    assert_eq!(Traces::of(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_ends_by_its_signal_or_is_killed() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "stops"), FIRST);
    let kind = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done";
    let (sandbox, obeys) = run_shell(&client, &config, kind).await.unwrap();
    let deaf = shell("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done", &config);
    let deaf = create(&client, &sandbox, &deaf, &config).await.unwrap();
    start(&client, &deaf).await.unwrap();
    for name in ["main", "deaf"] {
        until("it is up", async || (logged(&house, "stops", name) == "up\n").then_some(())).await;
    }
    stop(&client, &obeys, 60).await.unwrap();
    assert_eq!(status(&client, &obeys).await.unwrap().exit_code, 3);
    stop(&client, &deaf, 1).await.unwrap();
    assert_eq!(status(&client, &deaf).await.unwrap().exit_code, 137);
    stop(&client, &deaf, 1).await.unwrap();
    remove_pod(&client, &sandbox).await;
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_container_is_where_the_container_is() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "exec"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let look =
        "cat /proc/self/uid_map; for n in user net ipc uts pid mnt; do readlink /proc/self/ns/$n; done";
    let of_init = look.replace("self", "1");
    let answer = exec(&client, &container, look).await.unwrap();
    let init = exec(&client, &container, &of_init).await.unwrap();
    assert_eq!(String::from_utf8(answer.stdout.clone()), String::from_utf8(init.stdout));
    assert_eq!(String::from_utf8(answer.stdout).unwrap().lines().count(), 7);
    let answer = exec(&client, &container, "echo out; echo err >&2; exit 5").await.unwrap();
    assert_eq!((answer.stdout, answer.stderr, answer.exit_code), (b"out\n".to_vec(), b"err\n".to_vec(), 5));
    let late = exec_within(&client, &container, "sleep 1000", 1).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    let left = exec(&client, &container, "ps | grep -c '[s]leep 1000'").await.unwrap();
    assert_eq!(left.stdout, b"1\n", "only the container's own is left");
    let much = exec(&client, &container, "yes | head -c 20000000").await.unwrap();
    assert_eq!(much.stdout.len(), cri::LONGEST_MESSAGE - 4096, "what one message can carry");
    remove_pod(&client, &sandbox).await;
}

/// The command's helper was killed and the command died with it, but was collected by somebody else: a moment
/// after the answer it was still listed in the container.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_time_is_over_is_gone_when_its_caller_hears_of_it() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "late"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "exec sleep 1000").await.unwrap();
    let tasks = (0..8).map(async |_| exec_within(&client, &container, "exec sleep 1000", 1).await);
    for outcome in futures_util::future::join_all(tasks).await {
        assert_eq!(outcome.unwrap_err().code(), Code::DeadlineExceeded);
        let listed = exec(&client, &container, "ps -o comm | grep -c sleep").await.unwrap();
        assert_eq!(
            listed.stdout, b"1\n",
            "but for the first process, none runs or is dead and not collected"
        );
    }
    remove_pod(&client, &sandbox).await;
}

/// Not every filesystem that a run directory is on can be seen through maps: a tmpfs only since Linux 6.3.
#[tokio::test(flavor = "multi_thread")]
async fn the_pods_own_files_belong_to_its_root_also_in_a_run_directory_in_memory() {
    let house = House::open(Options { run_dir: RunDir::Memory, ..Options::default() }).await;
    let client = house.client().await;
    for (name, config) in [("own", in_users(pod(&house, "own"), FIRST)), ("hosts", pod(&house, "hosts"))] {
        let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
        let look =
            "for f in hosts hostname resolv.conf; do stat -c '%u %g %a' /etc/$f; done; echo a >> /etc/hosts";
        let found = exec(&client, &container, look).await.unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "0 0 644\n".repeat(3), "{name}");
        assert_eq!(found.exit_code, 0, "{name}: {:?}", String::from_utf8(found.stderr));
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_and_leaves_nothing() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let before = Traces::of(&house);
    let mut wrong = in_users(pod(&house, "wrong"), FIRST);
    support::pods::options(&mut wrong).userns_options.as_mut().unwrap().mode =
        cri::NamespaceMode::Target.into();
    let refused = run_pod(&client, &wrong).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("userns_options.mode"), "{refused}");
    let config = in_users(pod(&house, "right"), FIRST);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let again = run_pod(&client, &config).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);
    assert!(again.message().contains(&sandbox), "{again}");
    let mut far = shell("far", "true", &config);
    far.image = Some(cri::ImageSpec { image: support::image::FAR.into(), ..Default::default() });
    let refused = create(&client, &sandbox, &far, &config).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("far"), "{refused}");
    let mut missing = shell("missing", "true", &config);
    missing.command = vec!["/no/such/program".into()];
    let container = create(&client, &sandbox, &missing, &config).await.unwrap();
    let failed = start(&client, &container).await.unwrap_err();
    assert!(failed.message().contains("/no/such/program"), "{failed}");
    let found = status(&client, &container).await.unwrap();
    assert_eq!(found.state(), ContainerState::ContainerExited);
    assert_eq!(found.reason, "StartError");
    remove_pod(&client, &sandbox).await;
    assert_eq!(Traces::of(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_a_filter_names() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let mut config = pod(&house, "listed");
    config.labels.insert("app".into(), "web".into());
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let other = run_pod(&client, &pod(&house, "other")).await.unwrap();
    let listed = async |filter: cri::PodSandboxFilter| {
        let request = cri::ListPodSandboxRequest { filter: Some(filter) };
        let items = client.runtime().list_pod_sandbox(request).await.unwrap().into_inner().items;
        items.into_iter().map(|item| item.id).collect::<Vec<_>>()
    };
    let by_label = cri::PodSandboxFilter { label_selector: config.labels.clone(), ..Default::default() };
    assert_eq!(listed(by_label).await, [sandbox.as_str()]);
    let by_id = cri::PodSandboxFilter { id: other[..13].into(), ..Default::default() };
    assert_eq!(listed(by_id).await, [other.as_str()]);
    let stop = cri::StopPodSandboxRequest { pod_sandbox_id: other.clone() };
    client.runtime().stop_pod_sandbox(stop).await.unwrap();
    let ready = cri::PodSandboxStateValue { state: cri::PodSandboxState::SandboxReady.into() };
    let by_state = cri::PodSandboxFilter { state: Some(ready), ..Default::default() };
    assert_eq!(listed(by_state).await, [sandbox.as_str()]);
    assert_eq!(sandbox_status(&client, &other).await.unwrap().state(), cri::PodSandboxState::SandboxNotready);
    let filter = Some(cri::ContainerFilter { pod_sandbox_id: sandbox.clone(), ..Default::default() });
    let request = cri::ListContainersRequest { filter };
    let found = client.runtime().list_containers(request).await.unwrap().into_inner().containers;
    assert_eq!(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [container]);
    remove_pod(&client, &sandbox).await;
    remove_pod(&client, &other).await;
}
