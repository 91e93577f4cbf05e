use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::api::v1beta1::ContainerAllocateResponse;
use crate::request::{ContainerRequest, Lifetime, PodRequest};

const GPU: &str = "example.com/gpu";

fn pod(uid: &str, containers: &[(&str, Lifetime, u64)]) -> PodRequest {
    let container = |(name, lifetime, count): &(&str, Lifetime, u64)| ContainerRequest {
        name: (*name).to_owned(),
        lifetime: *lifetime,
        resources: BTreeMap::from([(GPU.to_owned(), *count)]),
    };
    PodRequest { uid: uid.to_owned(), containers: containers.iter().map(container).collect() }
}

fn wanted<'a>(pod: &'a PodRequest, container: &'a str) -> Wanted<'a> {
    let count = pod.container(container).unwrap().resources[GPU];
    Wanted { pod, container, resource: GPU, count }
}

fn devices(ids: &[&str], health: Health) -> Devices {
    let device = |id: &&str| ((*id).to_owned(), Device { health, numa: Vec::new() });
    ids.iter().map(device).collect()
}

fn socket() -> PathBuf {
    PathBuf::from("/dp/a.sock")
}

fn state(ids: &[&str]) -> State<u8> {
    let mut state = State::recorded(Vec::new(), Allocations::default(), Instant::now());
    state.connect(GPU, &socket(), 1).unwrap();
    state.list(GPU, &socket(), devices(ids, Health::Healthy));
    state
}

/// Gives a container its devices, and says which.
fn give(state: &mut State<u8>, wanted: &Wanted<'_>) -> Result<Vec<String>, AllocateError> {
    let Some(reserved) = state.reserve(wanted, &[])? else { return Ok(Vec::new()) };
    state.commit(wanted, &reserved.devices, ContainerAllocateResponse::default());
    Ok(reserved.devices.into_iter().collect())
}

#[tokio::test(start_paused = true)]
async fn a_device_is_given_once_and_again_when_its_pod_is_gone() {
    let mut state = state(&["a", "b"]);
    let (one, two) = (pod("p-1", &[("c", Lifetime::Pod, 1)]), pod("p-2", &[("c", Lifetime::Pod, 2)]));
    assert_eq!(give(&mut state, &wanted(&one, "c")).unwrap(), ["a"]);
    // A second attempt changes nothing.
    assert_eq!(give(&mut state, &wanted(&one, "c")).unwrap(), [""; 0]);
    let error = give(&mut state, &wanted(&two, "c")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"
    );
    assert!(state.retain(|uid| uid != "p-1") && !state.retain(|uid| uid != "p-1"));
    assert_eq!(give(&mut state, &wanted(&two, "c")).unwrap(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn devices_that_were_chosen_are_no_other_containers_while_the_plugin_is_asked() {
    let mut state = state(&["a", "b"]);
    let (one, two) = (pod("p-1", &[("c", Lifetime::Pod, 1)]), pod("p-2", &[("c", Lifetime::Pod, 1)]));
    let first = state.reserve(&wanted(&one, "c"), &["b".to_owned()]).unwrap().unwrap();
    assert_eq!(first, Reservation { plugin: 1, devices: BTreeSet::from(["b".to_owned()]) });
    let second = state.reserve(&wanted(&two, "c"), &["b".to_owned()]).unwrap().unwrap();
    assert_eq!(second.devices, BTreeSet::from(["a".to_owned()]), "what the plugin prefers is reserved");
    state.cancel(GPU, &first.devices);
    let again = state.reserve(&wanted(&one, "c"), &[]).unwrap().unwrap();
    assert_eq!(again.devices, first.devices);
}

#[tokio::test(start_paused = true)]
async fn devices_of_init_containers_go_on_to_the_containers_after_them() {
    let mut state = state(&["a", "b", "c"]);
    let pod = pod(
        "p",
        &[
            ("init", Lifetime::Init, 2),
            ("sidecar", Lifetime::Pod, 1),
            ("second", Lifetime::Init, 1),
            ("app", Lifetime::Pod, 2),
        ],
    );
    let mut give = |name| give(&mut state, &wanted(&pod, name)).unwrap();
    assert_eq!(give("init"), ["a", "b"]);
    assert_eq!(give("sidecar"), ["a"], "it begins when the first has ended");
    assert_eq!(give("second"), ["b"]);
    assert_eq!(give("app"), ["b", "c"]);
    assert_eq!(state.allocations().in_use(GPU).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_allocated_is_said_in_a_kubelets_words() {
    let mut state = state(&["a", "b"]);
    let one = pod("p", &[("c", Lifetime::Pod, 1)]);
    give(&mut state, &wanted(&one, "c")).unwrap();
    let fails =
        |state: &State<u8>, pod: &PodRequest| state.candidates(&wanted(pod, "c")).unwrap_err().to_string();

    let more = pod("p", &[("c", Lifetime::Pod, 2)]);
    let changed = r#"pod "p" container "c" changed request for resource "example.com/gpu" from 1 to 2"#;
    assert_eq!(fails(&state, &more), changed);

    let mut listed = devices(&["b"], Health::Healthy);
    listed.extend(devices(&["a"], Health::Unhealthy));
    state.list(GPU, &socket(), listed);
    assert_eq!(
        fails(&state, &one),
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu"
    );
    state.disconnect(GPU, &socket(), Instant::now());
    assert_eq!(
        fails(&state, &one),
        "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"
    );
    tokio::time::advance(std::time::Duration::from_secs(301)).await;
    assert!(state.expire(Instant::now()) && !state.expire(Instant::now()));
    assert_eq!(fails(&state, &one), "cannot allocate unregistered device example.com/gpu");
    assert!(state.is_known(GPU), "a container has some of it");
    assert_eq!(state.counts()[GPU], DeviceCount::default(), "the Node shows none of them");
    state.connect(GPU, &socket(), 2).unwrap();
    state.list(GPU, &socket(), devices(&["a"], Health::Healthy));
    assert_eq!(state.counts()[GPU], DeviceCount { capacity: 1, allocatable: 1 });
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_process_allocated_is_used_once_its_plugin_is_there() {
    let mut before = state(&["a"]);
    let one = pod("p", &[("c", Lifetime::Pod, 1)]);
    give(&mut before, &wanted(&one, "c")).unwrap();
    let mut allocations = before.allocations().clone();
    allocations.get_mut("p", "c", GPU).unwrap().is_confirmed = false;

    let mut state = State::recorded(vec![GPU.to_owned()], allocations, Instant::now());
    assert_eq!(state.counts()[GPU], DeviceCount::default());
    assert!(matches!(state.confirm(&wanted(&one, "c")), Err(AllocateError::NotYet { .. })));
    state.connect(GPU, &socket(), 1u8).unwrap();
    assert!(matches!(state.confirm(&wanted(&one, "c")), Err(AllocateError::Unhealthy { .. })));
    state.list(GPU, &socket(), devices(&["a", "b"], Health::Healthy));
    state.confirm(&wanted(&one, "c")).unwrap();
    // A container that restarts later has its devices also while the plugin is away, as with a kubelet.
    state.disconnect(GPU, &socket(), Instant::now());
    state.confirm(&wanted(&one, "c")).unwrap();
    assert_eq!(state.devices_of("p", "c")[0].health, Health::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn devices_are_shown_with_their_numa_nodes() {
    let mut state = state(&["a"]);
    let near = Device { health: Health::Healthy, numa: vec![0, 1] };
    state.list(GPU, &socket(), Devices::from([("a".to_owned(), near)]));
    let one = pod("p", &[("c", Lifetime::Pod, 1)]);
    give(&mut state, &wanted(&one, "c")).unwrap();
    let device = AllocatedDevice {
        resource: GPU.to_owned(),
        id: "a".to_owned(),
        health: Health::Healthy,
        numa: vec![0, 1],
    };
    assert_eq!((state.devices_of("p", "c"), state.allocatable()), (vec![device.clone()], vec![device]));
    let numa = &state.allocations().get("p", "c", GPU).unwrap().devices;
    assert_eq!(numa, &BTreeMap::from([(0, vec!["a".to_owned()]), (1, vec!["a".to_owned()])]));
}

#[tokio::test(start_paused = true)]
async fn resources_and_plugins_have_a_limit() {
    let mut state = state(&[]);
    for index in 1..MOST_PLUGINS {
        state.connect(GPU, &PathBuf::from(format!("/dp/{index}.sock")), 1).unwrap();
    }
    assert!(state.connect(GPU, &PathBuf::from("/dp/more.sock"), 1).unwrap_err().contains("16 plugins"));
    for index in 1..MOST_RESOURCES {
        state.connect(&format!("example.com/r{index}"), &socket(), 1).unwrap();
    }
    assert!(state.connect("example.com/more", &socket(), 1).unwrap_err().contains("1024 resources"));
}

/// What happens to a node, at random.
#[derive(Debug, Clone)]
enum Step {
    List(Vec<bool>),
    Disconnect,
    Give { pod: u8, count: u64 },
    Reserve { pod: u8, count: u64 },
    Release { pod: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(any::<bool>(), 0..6).prop_map(Step::List),
        Just(Step::Disconnect),
        (0..5u8, 1..4u64).prop_map(|(pod, count)| Step::Give { pod, count }),
        (0..5u8, 1..4u64).prop_map(|(pod, count)| Step::Reserve { pod, count }),
        (0..5u8).prop_map(|pod| Step::Release { pod }),
    ]
}

proptest! {
    #[test]
    fn no_two_pods_ever_share_a_device(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build().unwrap();
        runtime.block_on(async {
            let mut state = state(&["d0", "d1", "d2"]);
            let mut reserved: Vec<(u8, BTreeSet<String>)> = Vec::new();
            for step in steps {
                match step {
                    Step::List(healthy) => {
                        state.disconnect(GPU, &socket(), Instant::now());
                        state.connect(GPU, &socket(), 1).unwrap();
                        let device = |(index, is_healthy): (usize, bool)| {
                            let health = if is_healthy { Health::Healthy } else { Health::Unhealthy };
                            (format!("d{index}"), Device { health, numa: Vec::new() })
                        };
                        state.list(GPU, &socket(), healthy.into_iter().enumerate().map(device).collect());
                    }
                    Step::Disconnect => state.disconnect(GPU, &socket(), Instant::now()),
                    Step::Give { pod: uid, count } => {
                        let asking = pod(&format!("p-{uid}"), &[("c", Lifetime::Pod, count)]);
                        let _ = give(&mut state, &wanted(&asking, "c"));
                    }
                    Step::Reserve { pod: uid, count } => {
                        let asking = pod(&format!("r-{uid}"), &[("c", Lifetime::Pod, count)]);
                        if let Ok(Some(one)) = state.reserve(&wanted(&asking, "c"), &[]) {
                            reserved.push((uid, one.devices));
                        }
                    }
                    Step::Release { pod: uid } => {
                        state.retain(|kept| kept != format!("p-{uid}"));
                        if let Some((_, devices)) = reserved.pop() {
                            state.cancel(GPU, &devices);
                        }
                    }
                }
                let held = state.allocations().all().flat_map(|held| held.allocation.ids());
                let all: Vec<&str> =
                    held.chain(reserved.iter().flat_map(|(_, devices)| devices.iter().map(String::as_str))).collect();
                let distinct: BTreeSet<&str> = all.iter().copied().collect();
                prop_assert_eq!(all.len(), distinct.len(), "{:?}", all);
            }
            Ok(())
        })?;
    }
}
