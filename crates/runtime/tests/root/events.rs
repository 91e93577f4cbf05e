//! What a kubelet relies on: events, codes, and calls that may be made again.

use crate::support;

use cri::client::Client;
use cri::{Code, Status};
use cri::{ContainerEventType as Event, ContainerState, PodSandboxState};
use monitor::{Client as Monitor, Reply, Request};
use support::pods::{
    create, ended, exec, in_users, pod, remove_pod, run_pod, run_shell, sandbox_status, shell, start, status,
    stop,
};
use support::{House, Options, PATIENCE};
use tonic::Streaming;

const FIRST: u32 = 1_310_720_000;
const NOBODY: &str = "00000000000000000000000000000000";

async fn next(events: &mut Streaming<cri::ContainerEventResponse>) -> cri::ContainerEventResponse {
    tokio::time::timeout(PATIENCE, events.message()).await.unwrap().unwrap().unwrap()
}

async fn remove(client: &Client, container: &str) -> Result<(), Status> {
    let request = cri::RemoveContainerRequest { container_id: container.into() };
    client.runtime().remove_container(request).await.map(drop)
}

async fn stop_pod(client: &Client, sandbox: &str) -> Result<(), Status> {
    let request = cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.into() };
    client.runtime().stop_pod_sandbox(request).await.map(drop)
}

/// The states of the containers that an event tells of.
fn states(event: &cri::ContainerEventResponse) -> Vec<ContainerState> {
    event.containers_statuses.iter().map(cri::ContainerStatus::state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_order_with_what_is_so_by_then() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let mut events =
        client.runtime().get_container_events(cri::GetEventsRequest {}).await.unwrap().into_inner();
    let config = in_users(pod(&house, "events"), FIRST);
    let (sandbox, first) = run_shell(&client, &config, "exit 3").await.unwrap();
    ended(&client, &first).await;
    let second = create(&client, &sandbox, &shell("second", "sleep 1000", &config), &config).await.unwrap();
    start(&client, &second).await.unwrap();
    remove(&client, &first).await.unwrap();
    remove_pod(&client, &sandbox).await;
    let (created, runs, exited) =
        (ContainerState::ContainerCreated, ContainerState::ContainerRunning, ContainerState::ContainerExited);
    let mut since = 0;
    for (what, kind, expected) in [
        (&sandbox, Event::ContainerCreatedEvent, vec![]),
        (&sandbox, Event::ContainerStartedEvent, vec![]),
        (&first, Event::ContainerCreatedEvent, vec![created]),
        (&first, Event::ContainerStartedEvent, vec![]),
        (&first, Event::ContainerStoppedEvent, vec![exited]),
        (&second, Event::ContainerCreatedEvent, vec![exited, created]),
        (&second, Event::ContainerStartedEvent, vec![exited, runs]),
        (&first, Event::ContainerDeletedEvent, vec![runs]),
        (&second, Event::ContainerStoppedEvent, vec![exited]),
        (&sandbox, Event::ContainerStoppedEvent, vec![exited]),
        (&second, Event::ContainerDeletedEvent, vec![]),
        (&sandbox, Event::ContainerDeletedEvent, vec![]),
    ] {
        let event = next(&mut events).await;
        assert_eq!((&event.container_id, event.container_event_type()), (what, kind));
        // The first one may have ended by the time that it is told to have been started.
        if (what, kind) != (&first, Event::ContainerStartedEvent) {
            assert_eq!(states(&event), expected, "{kind:?}");
        }
        let pod = event.pod_sandbox_status.unwrap();
        assert_eq!((pod.id.as_str(), pod.metadata.unwrap().name.as_str()), (sandbox.as_str(), "events"));
        assert!(event.created_at >= since);
        since = event.created_at;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found_and_taking_it_away_is_fine() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let id = || NOBODY.to_owned();
    assert_eq!(status(&client, NOBODY).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(sandbox_status(&client, NOBODY).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(start(&client, NOBODY).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(exec(&client, NOBODY, "true").await.unwrap_err().code(), Code::NotFound);
    let config = pod(&house, "nobody");
    let made = create(&client, NOBODY, &shell("main", "true", &config), &config).await;
    assert_eq!(made.unwrap_err().code(), Code::NotFound);
    let reopen = cri::ReopenContainerLogRequest { container_id: id() };
    assert_eq!(client.runtime().reopen_container_log(reopen).await.unwrap_err().code(), Code::NotFound);
    let update = cri::UpdateContainerResourcesRequest {
        container_id: id(),
        linux: Some(cri::LinuxContainerResources::default()),
        ..Default::default()
    };
    assert_eq!(client.runtime().update_container_resources(update).await.unwrap_err().code(), Code::NotFound);
    let stats = cri::PodSandboxStatsRequest { pod_sandbox_id: id() };
    assert_eq!(client.runtime().pod_sandbox_stats(stats).await.unwrap_err().code(), Code::NotFound);
    let checkpoint = cri::CheckpointContainerRequest { container_id: id(), ..Default::default() };
    let checkpoint = client.runtime().checkpoint_container(checkpoint).await.unwrap_err();
    assert_eq!(checkpoint.code(), Code::Unimplemented);
    stop(&client, NOBODY, 1).await.unwrap();
    remove(&client, NOBODY).await.unwrap();
    remove_pod(&client, NOBODY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_can_be_made_again_and_states_are_kept_to() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "again"), FIRST);
    let (sandbox, first) = run_shell(&client, &config, "exit 5").await.unwrap();
    ended(&client, &first).await;
    for _ in 0..2 {
        stop(&client, &first, 10).await.unwrap();
    }
    assert_eq!(status(&client, &first).await.unwrap().exit_code, 5, "what is over stays as it was");
    assert_eq!(start(&client, &first).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(exec(&client, &first, "true").await.unwrap_err().code(), Code::FailedPrecondition);

    let main = shell("main", "sleep 1000", &config);
    let taken = create(&client, &sandbox, &main, &config).await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists);
    assert!(taken.message().contains(&first), "{taken}");
    let mut next = main.clone();
    next.metadata.as_mut().unwrap().attempt = 1;
    let second = create(&client, &sandbox, &next, &config).await.unwrap();
    start(&client, &second).await.unwrap();
    assert_eq!(start(&client, &second).await.unwrap_err().code(), Code::FailedPrecondition);
    // The same name in another pod is another name.
    let (other, of_other) = run_shell(&client, &pod(&house, "other"), "sleep 1000").await.unwrap();
    remove(&client, &first).await.unwrap();
    remove(&client, &first).await.unwrap();
    let first = create(&client, &sandbox, &main, &config).await.unwrap();

    // One that runs is ended first, as kubelets that garbage-collect expect it.
    remove(&client, &second).await.unwrap();
    assert_eq!(status(&client, &second).await.unwrap_err().code(), Code::NotFound);
    start(&client, &first).await.unwrap();
    for _ in 0..2 {
        stop_pod(&client, &sandbox).await.unwrap();
    }
    assert_eq!(sandbox_status(&client, &sandbox).await.unwrap().state(), PodSandboxState::SandboxNotready);
    assert_eq!(status(&client, &first).await.unwrap().exit_code, 137);
    let late = create(&client, &sandbox, &shell("late", "true", &config), &config).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    let again = run_pod(&client, &config).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists, "its name is its own until it is removed");
    let mut next = config.clone();
    next.metadata.as_mut().unwrap().attempt = 1;
    let attempt = run_pod(&client, &next).await.unwrap();
    remove_pod(&client, &sandbox).await;
    let anew = run_pod(&client, &config).await.unwrap();
    assert_eq!(status(&client, &of_other).await.unwrap().state(), ContainerState::ContainerRunning);
    for sandbox in [&attempt, &anew, &other] {
        remove_pod(&client, sandbox).await;
    }
    let listed = client.runtime().list_pod_sandbox(cri::ListPodSandboxRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_removed_is_forgotten_by_its_monitor() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "forget"), FIRST);
    let (sandbox, first) = run_shell(&client, &config, "true").await.unwrap();
    let known = || {
        let mut monitor = Monitor::connect(&house.run().join("sandboxes").join(&sandbox)).unwrap();
        let Reply::Listed(listed) = monitor.call(&Request::List, &[]).unwrap() else { panic!() };
        listed.into_iter().map(|listed| listed.container).collect::<Vec<_>>()
    };
    ended(&client, &first).await;
    assert_eq!(known(), std::slice::from_ref(&first));
    remove(&client, &first).await.unwrap();
    assert_eq!(known(), [""; 0]);
    remove_pod(&client, &sandbox).await;
}
