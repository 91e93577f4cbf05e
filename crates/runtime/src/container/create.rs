use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use container::{ContainerSpec, Job};
use cri::{ContainerConfig, ContainerEventType, NamespaceMode};
use images::Image;
use kernel::{Namespace, NamespaceKind, Process};
use tracing::info;

use super::files::{holder, take_files};
use super::{called, is_ready, relabel};
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::files;
use crate::files::make_dir;
use crate::id::Id;
use crate::layout::ContainerPlaces;
use crate::node::Node;
use crate::records::{ContainerRecord, ContainerStage, VERSION};
use crate::sandbox::label;
use crate::sandbox::namespaces::{Own, Sharing};
use crate::spec::{self, ContainerRequest, ImageMount};
use crate::store::{Container, Sandbox};
use crate::work::{blocking, now};

/// The form of `job.json`.
const JOB_VERSION: u32 = 1;

/// Makes a container in a sandbox.
pub(crate) async fn create(node: Arc<Node>, sandbox: String, config: ContainerConfig) -> Result<Id> {
    let sandbox = node.store.sandbox(&sandbox)?;
    let name = super::name(&sandbox.id, &config)?;
    let _gate = sandbox.gate.lock().await;
    is_ready(&sandbox)?;
    let id = Id::random().map_err(|cause| Error::step("read random numbers", cause))?;
    node.store.reserve("container", &name, &id)?;
    let (on_node, of_sandbox, own_id) = (Arc::clone(&node), Arc::clone(&sandbox), id.clone());
    let made = blocking(move || make(&on_node, &of_sandbox, &own_id, &config)).await;
    let container = match made {
        Ok(container) => Arc::new(container),
        Err(error) => {
            node.store.release(&id);
            return Err(error);
        }
    };
    node.store.add_container(Arc::clone(&container));
    let (name, of) = (called(&container), &sandbox.id);
    info!(parent: &sandbox.span, container = %id, sandbox = %of, "{name} of sandbox {of} is created");
    node.events.publish(&node.store, ContainerEventType::ContainerCreatedEvent, &id, &sandbox);
    Ok(id)
}

fn make(node: &Node, sandbox: &Sandbox, id: &Id, config: &ContainerConfig) -> Result<Container> {
    let places = node.layout.container(id);
    // Most are started as soon as they are made.
    node.groups.soon();
    let pod = sandbox.record();
    let image = found(node, config, pod.ids.as_ref())?;
    let target = target(node, sandbox, config)?;
    let from = From { image: &image, mounts: image_mounts(node, config)?, target };
    let start = build_spec(node, sandbox, id, config, &from)?;
    let log = log_path(&pod.config.log_directory, &config.log_path)?;
    let stop_signal = spec::stop_signal(config, image.config.stop_signal.as_deref())?;
    // Only for what is not refused.
    label::reserve_for_container(node, &pod, id, config)?;
    let record = ContainerRecord {
        version: VERSION,
        id: id.clone(),
        sandbox: sandbox.id.clone(),
        created_at: now(),
        stage: ContainerStage::Making,
        image_name: image.called().to_owned(),
        image_id: image.id.to_string(),
        image_ref: image.digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
        stop_signal,
        cgroup: start.cgroup.path.clone(),
        log,
        config: config.clone(),
    };
    let container = Container::new(record, places, ContainerState::Created);
    let made = put_on_disk(node, &container, start, &from);
    if made.is_err() {
        // If it cannot be given back now, the next start of a server does so.
        let _ = label::release_container(node, id, config);
    }
    made.map(|()| container)
}

fn put_on_disk(node: &Node, container: &Container, start: ContainerSpec, from: &From<'_>) -> Result<()> {
    let config = container.record().config;
    spec::make_missing(&config)?;
    relabel::volumes(&node.span(container), &container.id, &config, start.rootfs.label.as_deref())?;
    let written = write_down(node, container, start, from);
    if written.is_err() {
        // What is in the way of this is in the way of the next server, too, which says so.
        let _ = take_files(node, container);
    }
    written
}

/// An image, those that are mounted, and the PID namespace that is joined.
struct From<'a> {
    image: &'a Image,
    mounts: Vec<(Image, ImageMount)>,
    target: Option<Namespace>,
}

fn write_down(node: &Node, container: &Container, start: ContainerSpec, from: &From<'_>) -> Result<()> {
    let places: &ContainerPlaces = &container.places;
    make_dir(&places.state)?;
    files::write(&places.record(), &container.record())?;
    node.images.hold(from.image, &holder(&container.id, None))?;
    for (image, mount) in &from.mounts {
        node.images.hold(image, &holder(&container.id, Some(mount.index)))?;
    }
    for dir in ["rw/upper", "rw/work", "volumes"] {
        make_dir(&places.state.join(dir))?;
    }
    files::make_passable_dir(&places.run)?;
    if let Some(target) = &from.target {
        target.pin(&places.target())?;
    }
    let engine = node.settings.engine.clone();
    let job = Job { version: JOB_VERSION, engine, run_dir: places.run.clone(), start };
    files::write(&places.job(), &job)?;
    container.change(|record| record.stage = ContainerStage::Created)
}

/// The image, all of whose files have an owner in the pod.
fn found(node: &Node, config: &ContainerConfig, ids: Option<&ids::IdMappings>) -> Result<Image> {
    let spec = config.image.as_ref().ok_or_else(|| Error::invalid("image", "it is missing"))?;
    let image = node.images.find(&spec.image)?;
    if let Some(ids) = ids {
        image.fits(&ids.uids, &ids.gids)?;
    }
    Ok(image)
}

fn image_mounts(node: &Node, config: &ContainerConfig) -> Result<Vec<(Image, ImageMount)>> {
    let mut found = vec![];
    for (index, mount) in config.mounts.iter().enumerate() {
        let Some(spec) = &mount.image else { continue };
        let image = node.images.find(&spec.image)?;
        let layers = node.images.layers(&image)?;
        let source = spec::resolve_image_mount(&layers, &mount.image_sub_path)
            .map_err(|refusal| refusal.below(&format!("mounts[{index}]")))?;
        found.push((image, ImageMount { index, source }));
    }
    Ok(found)
}

fn build_spec(
    node: &Node,
    sandbox: &Sandbox,
    id: &Id,
    config: &ContainerConfig,
    from: &From<'_>,
) -> Result<ContainerSpec> {
    let pod = sandbox.record();
    let mounts: Vec<ImageMount> = from.mounts.iter().map(|(_, mount)| mount.clone()).collect();
    let places = node.layout.container(id);
    let target = from.target.as_ref().map(|_| places.target());
    let request = ContainerRequest {
        id: id.as_str(),
        sandbox: &pod.config,
        config,
        image: &from.image.config,
        lowers: &node.images.layers(from.image)?,
        dir: &places.state,
        place: &place(sandbox)?,
        image_mounts: &mounts,
        target: target.as_deref(),
        node: &node.facts,
        read_profile: &|path: &Path| fs::read(path),
    };
    Ok(spec::container(&request)?)
}

/// The PID namespace of the container that this one wants to look into, held: by the time of the start, its
/// first process may have ended and its number be another's.
fn target(node: &Node, sandbox: &Sandbox, config: &ContainerConfig) -> Result<Option<Namespace>> {
    let security = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = security.and_then(|security| security.namespace_options.as_ref());
    let Some(options) = options.filter(|options| options.pid() == NamespaceMode::Target) else {
        return Ok(None);
    };
    let Ok(target) = node.store.container(&options.target_id) else { return Ok(None) };
    match target.state() {
        ContainerState::Running(started) if target.sandbox == sandbox.id => {
            let process = Process::open(started.pid)?;
            let is_same = started.boot_id == node.boot_id && started.process().is_same();
            is_same.then(|| process.namespace(NamespaceKind::Pid)).transpose().map_err(Into::into)
        }
        _ => Ok(None),
    }
}

/// What was made for the sandbox.
fn place(sandbox: &Sandbox) -> Result<spec::SandboxResources> {
    let (record, places) = (sandbox.record(), &sandbox.places);
    let own = Own::of(&record.config)?;
    let pin = |sharing: Sharing, kind| (sharing == Sharing::Pod).then(|| places.pin(kind));
    Ok(spec::SandboxResources {
        sandbox: sandbox.id.to_string(),
        user: record.ids.is_some().then(|| places.pin(NamespaceKind::User)),
        network: pin(own.network, NamespaceKind::Net),
        ipc: pin(own.ipc, NamespaceKind::Ipc),
        uts: pin(own.network, NamespaceKind::Uts),
        pid: pin(own.pid, NamespaceKind::Pid),
        hosts: Some(places.hosts()),
        hostname: Some(places.hostname()),
        resolv_conf: Some(places.resolv_conf()),
        shm: if own.ipc == Sharing::Pod { places.shm() } else { PathBuf::from("/dev/shm") },
        cgroup_parent: record.cgroup.path().to_owned(),
        label: record.label.clone(),
    })
}

fn log_path(directory: &str, path: &str) -> Result<Option<PathBuf>> {
    if directory.is_empty() || path.is_empty() {
        return Ok(None);
    }
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(path).components().all(plain) {
        return Err(Error::invalid("log_path", format!("{path:?} leads out of the pod's log_directory")));
    }
    Ok(Some(Path::new(directory).join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_below_the_pods_directory_or_nowhere() {
        assert_eq!(log_path("/logs/a", "web/0.log").unwrap(), Some(PathBuf::from("/logs/a/web/0.log")));
        assert_eq!((log_path("", "web").unwrap(), log_path("/logs", "").unwrap()), (None, None));
        for wrong in ["/etc/cron.d/x", "../other/0.log", "a/../../b"] {
            let error = log_path("/logs/a", wrong).unwrap_err().to_string();
            assert!(error.starts_with("log_path: "), "{error}");
        }
    }
}
