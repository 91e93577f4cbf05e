//! Device plugins over real sockets: registration, allocation, health, restarts of both sides.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use devices::api::v1beta1::DevicePluginOptions;
use devices::{DeviceManager, DeviceMount, DeviceNode, Error, Health};
use telemetry::metrics::Registry;

use crate::node::{GPU, Node, devices, pod, until};
use crate::support::{FakePlugin, ready, register};

#[tokio::test]
async fn a_plugin_registers_and_a_container_gets_what_it_says() {
    let node = Node::start().await;
    let mode = node.path().join("kubelet.sock").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut plugin = FakePlugin::new(devices(&["a", "b", "c"]));
    plugin.options =
        DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };
    plugin.preferred = vec!["c".to_owned(), "other".to_owned()];
    plugin.mount = Some("/opt/fake".into());
    let serving = node.plugin("fake.sock", plugin).await;
    node.has(3, 3).await;

    let asking = pod("u-1", 2);
    assert!(node.manager.is_needed(&asking) && !node.manager.is_needed(&pod("u-1", 0)));
    node.manager.allocate(&asking).await.unwrap();
    let edits = node.manager.start_container(&asking, "app").await.unwrap();
    assert_eq!(edits.env["FAKE_DEVICES"], "a,c");
    assert_eq!(edits.annotations["fake.example.com/devices"], "a,c");
    let node_of = |id: &str| DeviceNode {
        container_path: format!("/dev/{id}"),
        host_path: "/dev/null".to_owned(),
        permissions: "rw".to_owned(),
    };
    assert_eq!(edits.nodes, [node_of("a"), node_of("c")]);
    let mount = DeviceMount {
        container_path: "/opt/fake".to_owned(),
        host_path: "/opt/fake".to_owned(),
        read_only: true,
    };
    assert_eq!(edits.mounts, [mount]);
    let calls = serving.plugin.calls.lock().unwrap().clone();
    assert_eq!(calls, ["GetPreferredAllocation 2 of a b c", "Allocate a c", "PreStartContainer a c"]);
    // A container that is started again has the same devices.
    let again = node.manager.start_container(&asking, "app").await.unwrap();
    assert_eq!(again, edits);
    // The devices of a pod are not less because others have some, too.
    node.manager.allocate(&pod("u-2", 1)).await.unwrap();
    assert_eq!(node.manager.allocated_beside("u-1")[GPU], 3);
    assert!(node.manager.allocated_beside("u-3").is_empty());
    let text = node.metrics.text();
    for line in [
        "kubelet_device_plugin_registration_total{resource_name=\"example.com/gpu\"} 1\n",
        "kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"example.com/gpu\"} 2\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[tokio::test]
async fn pods_that_start_at_once_never_share_a_device() {
    let node = Node::start().await;
    let ids: Vec<String> = (0..8).map(|index| format!("d{index}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let serving = node.plugin("fake.sock", FakePlugin::new(devices(&ids))).await;
    node.has(8, 8).await;
    let tasks: Vec<_> = (0..12)
        .map(|index| {
            let manager = node.manager.clone();
            tokio::spawn(async move {
                let asking = pod(&format!("u-{index}"), 1);
                manager.allocate(&asking).await.map(|()| manager.devices_of(&asking.uid, "app"))
            })
        })
        .collect();
    let (mut given, mut refused) = (Vec::new(), 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(devices) => given.extend(devices.into_iter().map(|device| device.id)),
            Err(error) => {
                refused += 1;
                let cause = error.to_string();
                assert!(
                    cause.starts_with(
                        "requested number of devices unavailable for example.com/gpu. Requested: 1"
                    ),
                    "{cause}"
                );
            }
        }
    }
    given.sort();
    assert_eq!((given, refused), (ids.iter().map(|&id| id.to_owned()).collect(), 4));
    assert_eq!(serving.plugin.calls.lock().unwrap().len(), 8);
    node.manager.release("u-0");
    node.manager.retain(|_| false);
    assert!(node.manager.pods().is_empty());
    node.manager.allocate(&pod("u-99", 8)).await.unwrap();
}

#[tokio::test]
async fn a_refusal_of_the_plugin_leaves_its_devices_free() {
    let node = Node::start().await;
    let serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a"]))).await;
    node.has(1, 1).await;
    "the device is on fire".clone_into(&mut serving.plugin.refusal.lock().unwrap());
    let error = node.manager.allocate(&pod("u-1", 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = Unknown desc = the device is on fire");
    serving.plugin.refusal.lock().unwrap().clear();
    node.manager.allocate(&pod("u-2", 1)).await.unwrap();
}

/// The second start of the container found the devices, and the next process gave them to another one.
#[tokio::test]
async fn an_allocation_that_cannot_be_recorded_is_none() {
    let node = Node::start().await;
    let _serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a"]))).await;
    node.has(1, 1).await;
    let file = node.path().join("kubelet_internal_checkpoint");
    let has = |text: &str| std::fs::read_to_string(&file).unwrap().contains(text);
    until("the list is on disk", || has("[\"a\"]")).await;
    // The name of the temporary file.
    let blocked = node.path().join("kubelet_internal_checkpoint.new");
    std::fs::create_dir(&blocked).unwrap();
    for _ in 0..2 {
        let error = node.manager.start_container(&pod("u-1", 1), "app").await.unwrap_err().to_string();
        assert!(error.starts_with("failed to write checkpoint file: "), "{error}");
        assert!(node.manager.pods().is_empty());
    }
    let error = node.manager.allocate(&pod("u-1", 1)).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to write checkpoint file: "), "{error}");
    assert!(node.manager.pods().is_empty());
    std::fs::remove_dir(&blocked).unwrap();
    node.manager.start_container(&pod("u-1", 1), "app").await.unwrap();
    assert!(has("u-1"));
}

#[tokio::test]
async fn health_and_the_end_of_a_plugin_change_what_can_be_had() {
    let node = Node::start().await;
    let serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a", "b"]))).await;
    node.has(2, 2).await;
    node.manager.allocate(&pod("u-1", 1)).await.unwrap();
    serving.plugin.devices.send_modify(|all| all[0].is_healthy = false);
    node.has(2, 1).await;
    assert_eq!(node.manager.devices_of("u-1", "app")[0].health, Health::Unhealthy);
    let error = node.manager.allocate(&pod("u-1", 1)).await.unwrap_err().to_string();
    assert!(error.starts_with("previously allocated devices are no longer healthy"), "{error}");
    serving.plugin.devices.send_modify(|all| all[0].is_healthy = true);
    node.has(2, 2).await;

    serving.end();
    node.has(2, 0).await;
    let error = node.manager.allocate(&pod("u-2", 1)).await.unwrap_err().to_string();
    assert!(error.starts_with("no healthy devices present"), "{error}");
    // A container that restarts meanwhile keeps its devices.
    let edits = node.manager.start_container(&pod("u-1", 1), "app").await.unwrap();
    assert_eq!(edits.env["FAKE_DEVICES"], "a");

    let _again = node.plugin("fake.sock", FakePlugin::new(devices(&["a", "b"]))).await;
    node.has(2, 2).await;
    node.manager.allocate(&pod("u-2", 1)).await.unwrap();
    assert_eq!(node.manager.devices_of("u-2", "app")[0].id, "b");
}

#[tokio::test]
async fn a_plugin_that_registers_again_takes_its_own_place() {
    let node = Node::start().await;
    let serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a"]))).await;
    node.has(1, 1).await;
    register(node.path(), "fake.sock", GPU).await.unwrap();
    serving.plugin.devices.send_modify(|all| all.extend(devices(&["b"])));
    node.has(2, 2).await;
    // Its successor of a rollout, at another socket.
    let successor = node.plugin("next.sock", FakePlugin::new(devices(&["a", "b", "c"]))).await;
    node.has(3, 3).await;
    serving.end();
    node.has(3, 3).await;
    node.manager.allocate(&pod("u-1", 1)).await.unwrap();
    assert_eq!(successor.plugin.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn allocations_are_kept_over_a_restart_and_their_plugin_registers_again() {
    let node = Node::start().await;
    assert!(node.manager.is_new());
    let serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a", "b"]))).await;
    node.has(2, 2).await;
    let one = pod("u-1", 1);
    node.manager.allocate(&one).await.unwrap();
    let edits = node.manager.start_container(&one, "app").await.unwrap();

    let node = node.restarted().await;
    assert!(!node.manager.is_new());
    assert!(!serving.socket.exists(), "a plugin notices that the node's socket is a new one");
    node.has(0, 0).await;
    assert_eq!(node.manager.pods(), ["u-1"]);
    let waits = node.manager.start_container(&one, "app").await.unwrap_err().to_string();
    assert!(waits.contains("has not registered since the agent was started"), "{waits}");
    drop(serving);
    let _plugin = node.plugin("fake.sock", FakePlugin::new(devices(&["a", "b"]))).await;
    node.has(2, 2).await;
    assert_eq!(node.manager.start_container(&one, "app").await.unwrap(), edits);
    node.manager.allocate(&pod("u-2", 1)).await.unwrap();
    assert_eq!(node.manager.devices_of("u-2", "app")[0].id, "b");
    node.manager.release("u-1");
    let file = node.path().join("kubelet_internal_checkpoint");
    until("the release is on disk", || !std::fs::read_to_string(&file).unwrap().contains("u-1")).await;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let node = node.restarted().await;
    assert_eq!(node.manager.pods(), ["u-2"]);
}

/// The extended resources of its Node, which an administrator may have written, became none with each restart.
#[tokio::test]
async fn a_node_without_plugins_is_new_once() {
    let node = Node::start().await;
    assert!(node.manager.is_new());
    let node = node.restarted().await;
    assert!(!node.manager.is_new());
}

#[tokio::test]
async fn a_damaged_checkpoint_stops_the_agent_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubelet_internal_checkpoint");
    // A file that a power loss has emptied is one, too.
    for text in [r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}"#, ""] {
        std::fs::write(&file, text).unwrap();
        let error = DeviceManager::open(dir.path(), &Registry::default()).unwrap_err();
        assert!(matches!(&error, Error::Checkpoint { .. }), "{error}");
        assert!(error.hint().unwrap().contains("end the pods"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[tokio::test]
async fn a_kubelet_that_still_runs_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = UnixListener::bind(&socket).unwrap();
    let other = dir.path().join("plugin.sock");
    drop(UnixListener::bind(&other).unwrap());
    std::fs::write(dir.path().join("file"), "").unwrap();
    let manager = DeviceManager::open(dir.path(), &Registry::default()).unwrap();
    let error = manager.serve().await.unwrap_err();
    assert!(matches!(&error, Error::Taken(path) if *path == socket), "{error}");
    assert!(other.exists());
    drop(kubelet);
    let server = manager.serve().await.unwrap();
    assert!(server.is_serving());
    assert!(!other.exists() && dir.path().join("file").exists());
    drop(server);
    until("the socket is gone", || !socket.exists()).await;
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_with_the_cause() {
    let node = Node::start().await;
    let plugin = FakePlugin::new(devices(&["a"]));
    let socket = node.path().join("fake.sock");
    let _process = plugin.serve(&socket);
    ready(&socket).await;
    for (endpoint, resource, cause) in [
        ("fake.sock", "cpu", "the ResourceName \"cpu\" is invalid"),
        ("../fake.sock", GPU, "is not the name of a socket in"),
        ("missing.sock", GPU, "failed to get device plugin options: failed to dial device plugin: "),
    ] {
        let error = register(node.path(), endpoint, resource).await.unwrap_err();
        assert!(error.contains(cause), "{error}");
    }
    let counts = node.manager.counts();
    assert!(counts.borrow().is_empty());
    register(node.path(), "fake.sock", GPU).await.unwrap();
}

/// It was called once, and answered nothing at all.
#[tokio::test]
async fn a_socket_that_does_not_answer_keeps_no_other_plugin_from_registering() {
    let node = Node::start().await;
    let _deaf = UnixListener::bind(node.path().join("deaf.sock")).unwrap();
    let dir = node.path().to_owned();
    let deaf = tokio::spawn(async move { register(&dir, "deaf.sock", GPU).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _serving = node.plugin("fake.sock", FakePlugin::new(devices(&["a"]))).await;
    node.has(1, 1).await;
    assert!(!deaf.is_finished());
    deaf.abort();
}
