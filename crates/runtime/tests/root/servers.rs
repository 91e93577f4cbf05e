//! Two servers where there may be one, and what one does that others depend on.

use crate::support;

use std::path::{Path, PathBuf};

use support::pods::{create, ended, exec, in_users, pod, remove_pod, run_pod, run_shell, shell, start, stop};
use support::{House, Options};

const FIRST: u32 = 1_508_179_968;

/// What another server of this house says to directories of its own choice, as it is refused.
fn refused(house: &House, socket: &str, state: &str, run: &Path) -> String {
    let mut server = house.inside(&testkit::programs().join("wardlet"));
    server.args(["cri", "--network", "none", "--cgroup", &house.cgroup]);
    server.args(["--streaming-address", "127.0.0.1:0"]);
    server.args(["--listen", &format!("unix://{}", house.dir.join(socket).display())]);
    server.arg("--state-dir").arg(house.dir.join(state)).arg("--run-dir").arg(run);
    let done = server.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    said
}

/// It once removed the network of all pods and killed them, and then found that the socket was taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_none_of_the_pods_that_run_touches_nothing() {
    let mut house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "first"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let (run, other_run) = (house.run(), house.dir.join("r2"));
    let said = refused(&house, "cri.sock", "s2", &run);
    assert!(said.contains("cri.sock"), "{said}");
    assert!(!house.dir.join("s2/runtime").exists(), "not even its own directories are made");
    let said = refused(&house, "two.sock", "s2", &run);
    assert!(said.contains("another server uses"), "{said}");
    let said = refused(&house, "two.sock", "s2", &other_run);
    assert!(said.contains("another server uses"), "the control group is held, too: {said}");
    exec(&client, &container, "true").await.unwrap();

    house.kill();
    for run in [&run, &other_run] {
        let said = refused(&house, "two.sock", "s2", run);
        assert!(said.contains(&sandbox) && said.contains("hint: "), "{said}");
    }
    house.start().await;
    let client = house.client().await;
    exec(&client, &container, "true").await.unwrap();
    remove_pod(&client, &sandbox).await;
}

/// Where the group of all pods is, in each hierarchy that has it.
fn groups(house: &House) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let below = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let places = below.chain([root.to_owned()]).map(|at| at.join(house.cgroup.trim_start_matches('/')));
    places.filter(|place| place.is_dir()).collect()
}

/// An empty one was left on every node.
#[tokio::test(flavor = "multi_thread")]
async fn the_control_group_of_all_pods_goes_with_the_server_once_no_pod_is_left() {
    let mut house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "one"), FIRST);
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let all = groups(&house);
    assert!(!all.is_empty());
    drop(client);
    assert!(house.terminate().success());
    assert_eq!(groups(&house), all, "the pod goes on in it");

    house.start().await;
    let client = house.client().await;
    exec(&client, &container, "true").await.unwrap();
    remove_pod(&client, &sandbox).await;
    assert_eq!(groups(&house), all, "the server has it");
    drop(client);
    assert!(house.terminate().success());
    assert_eq!(groups(&house), [""; 0].map(PathBuf::from));

    // What somebody else has made is somebody else's.
    all.iter().for_each(|group| std::fs::create_dir(group).unwrap());
    house.start().await;
    assert!(house.terminate().success());
    assert_eq!(groups(&house), all);
}

/// Such a container could not be stopped at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_asked_to_end_by_a_real_time_signal() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "signal"), FIRST + 65_536);
    let sandbox = run_pod(&client, &config).await.unwrap();
    let mut asked = shell("main", "trap 'exit 5' 37; touch /ready; while :; do sleep 0.05; done", &config);
    asked.stop_signal = cri::Signal::Sigrtminplus3.into();
    let container = create(&client, &sandbox, &asked, &config).await.unwrap();
    start(&client, &container).await.unwrap();
    support::until("it is ready", async || {
        let looked = exec(&client, &container, "test -e /ready").await.ok()?;
        (looked.exit_code == 0).then_some(())
    })
    .await;
    stop(&client, &container, 60).await.unwrap();
    assert_eq!(ended(&client, &container).await.exit_code, 5);
    remove_pod(&client, &sandbox).await;
}

/// What it was to look into is held by then: the number of its first process may be another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_looks_into_one_that_is_gone_does_not_start_and_leaves_nothing() {
    let house = House::open(Options::default()).await;
    let before = support::traces::Traces::of(&house);
    let client = house.client().await;
    let config = in_users(pod(&house, "target"), FIRST + 2 * 65_536);
    let (sandbox, first) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    let looking = async |name: &str| {
        let mut asked = shell(name, "test -d /proc/1 && sleep 1000", &config);
        let options = support::pods::security(&mut asked).namespace_options.as_mut().unwrap();
        (options.pid, options.target_id) = (cri::NamespaceMode::Target.into(), first.clone());
        create(&client, &sandbox, &asked, &config).await.unwrap()
    };
    let (early, late) = (looking("early").await, looking("late").await);
    start(&client, &early).await.unwrap();
    stop(&client, &first, 0).await.unwrap();
    assert!(start(&client, &late).await.is_err());
    remove_pod(&client, &sandbox).await;
    assert_eq!(support::traces::Traces::of(&house), before);
}
