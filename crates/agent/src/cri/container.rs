//! The CRI configuration of a container.

use std::collections::BTreeMap;

use ::devices::ContainerEdits;
use cri::{
    ContainerConfig, ContainerMetadata, Device, ImageSpec, KeyValue, LinuxContainerConfig, Mount, Signal,
};
use manifest::k8s_openapi::api::core::v1::Container;

use types::keys::CONTAINER_NAME;

use crate::cri::calls::{TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY};
use crate::cri::devices as of_plugins;
use crate::cri::resources;
use crate::cri::sandbox;
use crate::cri::security;
use crate::error::Result;
use crate::pod::context::PodContext;
use crate::pod::env::all_expanded;
use crate::pod::images::ImageUser;

/// What is resolved before a container is created.
pub(crate) struct Ready {
    pub(crate) attempt: u32,
    pub(crate) image: ImageSpec,
    /// The image's user.
    pub(crate) user: ImageUser,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) mounts: Vec<Mount>,
    /// What it gets with the devices of plugins; their variables and mounts are among those above.
    pub(crate) devices: ContainerEdits,
    /// The running container whose PID namespace it joins.
    pub(crate) target: Option<String>,
}

/// The path of a container's log, relative to the pod's log directory.
pub(crate) fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}

/// # Errors
/// If the command is too large with the values of its variables.
pub(crate) fn config(context: &PodContext, container: &Container, ready: Ready) -> Result<ContainerConfig> {
    let words =
        |list: &Option<Vec<String>>| all_expanded(list.as_deref().unwrap_or_default(), &ready.variables);
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata { name: container.name.clone(), attempt: ready.attempt }),
        command: words(&container.command)?,
        args: words(&container.args)?,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        labels: labels(context, container),
        annotations: annotations(context, container, &ready),
        log_path: log_path(&container.name, ready.attempt),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources::of(context, container)),
            security_context: Some(security::in_namespace_of(
                ready.target,
                security::of_container(context, container, &ready.user),
            )),
        }),
        stop_signal: signal(container),
        envs: ready.variables.into_iter().map(|(key, v)| KeyValue { key, value: v.into_bytes() }).collect(),
        image: Some(ready.image),
        mounts: ready.mounts,
        devices: devices(context).into_iter().chain(of_plugins::nodes(&ready.devices)).collect(),
        cdi_devices: of_plugins::cdi(&ready.devices),
    })
}

fn labels(context: &PodContext, container: &Container) -> BTreeMap<String, String> {
    let mut all = sandbox::identity(context);
    all.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    all
}

/// Those of plugins come first: none of them replaces one of ours.
fn annotations(context: &PodContext, container: &Container, ready: &Ready) -> BTreeMap<String, String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let all = [
        context.instance.annotation(),
        ("io.kubernetes.container.restartCount".to_owned(), ready.attempt.to_string()),
        (TERMINATION_MESSAGE_PATH.to_owned(), text(&container.termination_message_path)),
        (TERMINATION_MESSAGE_POLICY.to_owned(), text(&container.termination_message_policy)),
    ];
    let of_plugins = ready.devices.annotations.clone().into_iter();
    of_plugins.chain(context.marks.of_container(&context.pod, container)).chain(all).collect()
}

/// Devices of the container. Admission has refused those that pods must not have.
fn devices(context: &PodContext) -> Vec<Device> {
    let named = manifest::devices(context.pod.metadata.annotations.as_ref()).unwrap_or_default();
    let given = |path: &str| Device {
        container_path: path.to_owned(),
        host_path: path.to_owned(),
        permissions: "rw".to_owned(),
    };
    named.into_iter().map(given).collect()
}

fn signal(container: &Container) -> i32 {
    let name = container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref()).unwrap_or_default();
    let known = Signal::from_str_name(&format!("SIGNAL_{name}"));
    known.unwrap_or(Signal::RuntimeDefault).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pod's own labels were repeated on each container.
    #[test]
    fn a_container_has_the_labels_that_name_it_and_no_others() {
        let mut context = PodContext::for_test(r#"{"containers":[{"name":"a"}]}"#);
        context.pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        let found = labels(&context, &context.spec.containers[0]);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let expected = ["container.name", "pod.name", "pod.namespace", "pod.uid"];
        assert_eq!(names, expected.map(|name| format!("io.kubernetes.{name}")));
        assert!(
            sandbox::config(&context, 0, std::path::Path::new("/logs"), cri::DnsConfig::default())
                .labels
                .contains_key("app")
        );
    }

    #[test]
    fn streams_and_the_stop_signal_are_asked_for_as_the_container_has_them() {
        let text = r#"{"containers":[{"name":"a"},{"name":"b","stdin":true,"stdinOnce":true,"tty":true,
            "lifecycle":{"stopSignal":"SIGUSR1"},"workingDir":"/x","command":["$(A)"],"args":["$(B)"]}]}"#;
        let context = PodContext::for_test(text);
        let of = |index: usize| {
            let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
            let (image, user) = (ImageSpec::default(), ImageUser::default());
            let devices = ContainerEdits {
                annotations: BTreeMap::from([
                    ("example.com/gpu".to_owned(), "7".to_owned()),
                    ("io.kubernetes.container.restartCount".to_owned(), "9".to_owned()),
                ]),
                ..ContainerEdits::default()
            };
            let mounts = Vec::new();
            let ready = Ready { attempt: 3, image, user, variables, mounts, devices, target: None };
            config(&context, &context.spec.containers[index], ready).unwrap()
        };
        let (plain, own) = (of(0), of(1));
        assert_eq!((plain.stdin, plain.stdin_once, plain.tty), (false, false, false));
        assert_eq!((own.stdin, own.stdin_once, own.tty), (true, true, true));
        assert_eq!((plain.stop_signal(), own.stop_signal()), (Signal::RuntimeDefault, Signal::Sigusr1));
        assert_eq!(
            (own.command, own.args, own.working_dir),
            (vec!["1".into()], vec!["$(B)".into()], "/x".into())
        );
        assert_eq!(own.log_path, "b/3.log");
        let annotation = |key: &str| own.annotations[key].as_str();
        assert_eq!(annotation("example.com/gpu"), "7");
        assert_eq!(annotation("io.kubernetes.container.restartCount"), "3", "a plugin does not replace it");
    }
}
