//! Servers and monitors that are killed, and the next ones that go on.

use crate::support;

use cri::ContainerState;
use rustix::process::Signal;
use support::pods::{ended, exec, in_users, logged, pod, remove_pod, run_shell, sandbox_status, status};
use support::traces::Traces;
use support::{House, Options, signal, until};

const FIRST: u32 = 1_376_256_000;

fn block(n: u32) -> u32 {
    FIRST + n * 65_536
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_outlive_a_killed_server_and_no_exit_code_is_lost() {
    let mut house = House::open(Options::default()).await;
    let before = Traces::of(&house);
    let client = house.client().await;
    let go = "while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 9";
    let (ends, first) =
        run_shell(&client, &in_users(pod(&house, "ends"), block(0)), "sleep 2; echo late; exit 9")
            .await
            .unwrap();
    let (lasts, second) = run_shell(&client, &in_users(pod(&house, "lasts"), block(1)), go).await.unwrap();
    house.kill();
    until("it ends while no server runs", async || {
        house.state().join("runtime/containers").join(&first).join("exit.json").exists().then_some(())
    })
    .await;
    house.start().await;
    let client = house.client().await;
    let found = ended(&client, &first).await;
    assert_eq!((found.exit_code, found.reason.as_str()), (9, "Error"));
    assert_eq!(logged(&house, "ends", "main"), "late\n", "output goes on without a server");
    assert_eq!(status(&client, &second).await.unwrap().state(), ContainerState::ContainerRunning);
    exec(&client, &second, "touch /tmp/go").await.unwrap();
    assert_eq!(ended(&client, &second).await.exit_code, 9, "its end is told to the server that came later");
    for sandbox in [ends, lasts] {
        remove_pod(&client, &sandbox).await;
    }
    assert_eq!(Traces::of(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_end_ends_and_its_pods_go_on() {
    let mut house = House::open(Options::default()).await;
    let client = house.client().await;
    let events = client.runtime().get_container_events(cri::GetEventsRequest {}).await.unwrap();
    let config = in_users(pod(&house, "on"), block(2));
    let (sandbox, container) = run_shell(&client, &config, "sleep 1000").await.unwrap();
    assert!(house.terminate().success());
    drop(events);
    house.start().await;
    let client = house.client().await;
    assert_eq!(status(&client, &container).await.unwrap().state(), ContainerState::ContainerRunning);
    remove_pod(&client, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_directories_is_refused() {
    let house = House::open(Options::default()).await;
    let mut second = house.server_command();
    second.args(["--listen", &format!("unix://{}", house.dir.join("two.sock").display())]);
    let mut words: Vec<_> = second.get_args().map(ToOwned::to_owned).collect();
    let at = words.iter().position(|word| word == "--listen").unwrap();
    words.drain(at..at + 2);
    let refused = std::process::Command::new("nsenter").args(words).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("another server uses"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_goes_on_without_its_monitor_and_ends_as_lost() {
    let house = House::open(Options::default()).await;
    let before = Traces::of(&house);
    let client = house.client().await;
    let config = in_users(pod(&house, "alone"), block(3));
    let (sandbox, container) =
        run_shell(&client, &config, "while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 4").await.unwrap();
    let first = house.monitor(&sandbox).process;
    signal(first.pid, Signal::KILL);
    until("there is another monitor", async || (house.monitor(&sandbox).process != first).then_some(()))
        .await;
    assert_eq!(status(&client, &container).await.unwrap().state(), ContainerState::ContainerRunning);
    exec(&client, &container, "touch /tmp/go").await.unwrap();
    let found = ended(&client, &container).await;
    assert_eq!((found.exit_code, found.reason.as_str()), (255, "Error"));
    remove_pod(&client, &sandbox).await;
    assert_eq!(Traces::of(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_pods_at_once_are_all_made_and_all_gone() {
    let mut house = House::open(Options::default()).await;
    let before = Traces::of(&house);
    let client = house.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let config = in_users(pod(&house, &format!("many-{n}")), block(10 + n));
        let client = client.clone();
        tasks.spawn(async move {
            run_shell(&client, &config, &format!("cat /proc/self/uid_map; exit {n}"))
                .await
                .map(|made| (n, made))
        });
    }
    let made: Vec<_> = tasks.join_all().await.into_iter().collect::<Result<_, _>>().unwrap();
    for (n, (_, container)) in &made {
        assert_eq!(ended(&client, container).await.exit_code, i32::try_from(*n).unwrap());
        let log = logged(&house, &format!("many-{n}"), "main");
        assert!(log.contains(&block(10 + n).to_string()), "{log}");
    }
    house.kill();
    house.start().await;
    let client = house.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for (_, (sandbox, _)) in made {
        let client = client.clone();
        tasks.spawn(async move {
            let found = sandbox_status(&client, &sandbox).await.unwrap();
            assert_eq!(found.state(), cri::PodSandboxState::SandboxReady);
            remove_pod(&client, &sandbox).await;
        });
    }
    tasks.join_all().await;
    assert_eq!(Traces::of(&house), before);
}
