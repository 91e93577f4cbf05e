//! Sandboxes and containers as CRI shows them.

use std::collections::BTreeMap;

use crate::container_state::ContainerState;
use crate::records::{ContainerRecord, SandboxRecord, SandboxStage};
use crate::store::{Container, Sandbox};

fn sandbox_state(record: &SandboxRecord) -> cri::PodSandboxState {
    match record.stage {
        SandboxStage::Ready => cri::PodSandboxState::SandboxReady,
        SandboxStage::Making | SandboxStage::Stopped => cri::PodSandboxState::SandboxNotready,
    }
}

/// A line of a list.
pub(crate) fn sandbox(sandbox: &Sandbox) -> cri::PodSandbox {
    let record = sandbox.record();
    cri::PodSandbox {
        id: record.id.to_string(),
        state: sandbox_state(&record).into(),
        created_at: record.created_at,
        runtime_handler: record.handler,
        metadata: record.config.metadata,
        labels: record.config.labels,
        annotations: record.config.annotations,
    }
}

pub(crate) fn sandbox_status(sandbox: &Sandbox) -> cri::PodSandboxStatus {
    let record = sandbox.record();
    let security = record.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = security.and_then(|security| security.namespace_options.clone());
    let mut ips = record.ips.iter().cloned();
    cri::PodSandboxStatus {
        id: record.id.to_string(),
        state: sandbox_state(&record).into(),
        created_at: record.created_at,
        network: Some(cri::PodSandboxNetworkStatus {
            ip: ips.next().unwrap_or_default(),
            additional_ips: ips.map(|ip| cri::PodIp { ip }).collect(),
        }),
        linux: Some(cri::LinuxPodSandboxStatus { namespaces: Some(cri::Namespace { options }) }),
        runtime_handler: record.handler,
        metadata: record.config.metadata,
        labels: record.config.labels,
        annotations: record.config.annotations,
    }
}

/// A line of a list.
pub(crate) fn container(container: &Container) -> cri::Container {
    let record = container.record();
    cri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: record.sandbox.to_string(),
        state: container.state().to_cri().into(),
        created_at: record.created_at,
        image: Some(image_spec(&record)),
        image_ref: record.image_ref,
        image_id: record.image_id,
        metadata: record.config.metadata,
        labels: record.config.labels,
        annotations: record.config.annotations,
    }
}

fn image_spec(record: &ContainerRecord) -> cri::ImageSpec {
    let asked = record.config.image.clone().unwrap_or_default();
    cri::ImageSpec { image: record.image_name.clone(), ..asked }
}

pub(crate) fn container_status(container: &Container) -> cri::ContainerStatus {
    let (record, life) = (container.record(), container.state());
    let mut status = cri::ContainerStatus {
        id: record.id.to_string(),
        state: life.to_cri().into(),
        created_at: record.created_at,
        image: Some(image_spec(&record)),
        mounts: record.config.mounts,
        log_path: record.log.map(|log| log.display().to_string()).unwrap_or_default(),
        resources: resources(record.config.linux),
        stop_signal: record.config.stop_signal,
        image_ref: record.image_ref,
        image_id: record.image_id,
        metadata: record.config.metadata,
        labels: record.config.labels,
        annotations: record.config.annotations,
        ..Default::default()
    };
    match life {
        ContainerState::Created => {}
        ContainerState::Running(started) => {
            status.started_at = started.started_at;
            status.user = started.user.map(user);
        }
        ContainerState::Exited(ended) => {
            status.started_at = ended.started_at;
            status.finished_at = ended.finished_at;
            status.exit_code = ended.code;
            status.reason = ended.reason;
            status.message = ended.message;
            status.user = ended.user.map(user);
        }
    }
    status
}

fn resources(linux: Option<cri::LinuxContainerConfig>) -> Option<cri::ContainerResources> {
    let linux = linux.and_then(|linux| linux.resources);
    linux.map(|linux| cri::ContainerResources { linux: Some(linux) })
}

fn user(user: monitor::User) -> cri::ContainerUser {
    let groups = user.groups.into_iter().map(i64::from).collect();
    let (uid, gid) = (user.uid.into(), user.gid.into());
    cri::ContainerUser { linux: Some(cri::LinuxContainerUser { uid, gid, supplemental_groups: groups }) }
}

/// Whether all of `wanted` are among `labels`.
pub(crate) fn selected(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a sandbox is one of those that were asked for.
pub(crate) fn sandbox_matches(found: &cri::PodSandbox, filter: Option<&cri::PodSandboxFilter>) -> bool {
    let Some(filter) = filter else { return true };
    found.id.starts_with(&filter.id)
        && filter.state.is_none_or(|wanted| wanted.state == found.state)
        && selected(&found.labels, &filter.label_selector)
}

/// Whether a container is one of those that were asked for.
pub(crate) fn container_matches(found: &cri::Container, filter: Option<&cri::ContainerFilter>) -> bool {
    let Some(filter) = filter else { return true };
    found.id.starts_with(&filter.id)
        && found.pod_sandbox_id.starts_with(&filter.pod_sandbox_id)
        && filter.state.is_none_or(|wanted| wanted.state == found.state)
        && selected(&found.labels, &filter.label_selector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_what_has_all_that_it_names() {
        let label = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let found = cri::Container {
            id: "abc".into(),
            pod_sandbox_id: "def".into(),
            state: cri::ContainerState::ContainerRunning.into(),
            labels: label("app", "web"),
            ..Default::default()
        };
        let all = cri::ContainerFilter::default();
        let exited = cri::ContainerStateValue { state: cri::ContainerState::ContainerExited.into() };
        assert!(container_matches(&found, None) && container_matches(&found, Some(&all)));
        for (filter, expected) in [
            (cri::ContainerFilter { id: "ab".into(), ..all.clone() }, true),
            (cri::ContainerFilter { id: "b".into(), ..all.clone() }, false),
            (cri::ContainerFilter { pod_sandbox_id: "x".into(), ..all.clone() }, false),
            (cri::ContainerFilter { state: Some(exited), ..all.clone() }, false),
            (cri::ContainerFilter { label_selector: label("app", "web"), ..all.clone() }, true),
            (cri::ContainerFilter { label_selector: label("app", "db"), ..all.clone() }, false),
        ] {
            assert_eq!(container_matches(&found, Some(&filter)), expected, "{filter:?}");
        }
    }
}
