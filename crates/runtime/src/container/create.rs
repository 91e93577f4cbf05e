use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bundle::{Job, Start};
use images::Image;
use kernel::{Namespace, NamespaceKind, Process};
use wire::cri::{ContainerConfig, ContainerEventType, NamespaceMode};

use super::{called, relabel};
use crate::book::{Container, Sandbox};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::layout::ContainerPlaces;
use crate::life::Life;
use crate::node::{Node, blocking, make_dir, now};
use crate::order::{self, Asked, ImageMount};
use crate::records::{ContainerRecord, ContainerStage, SandboxStage, VERSION};
use crate::sandbox::spaces::{Own, Sharing};
use crate::{events, files};

/// The form of `job.json`.
const JOB_VERSION: u32 = 1;

/// Makes a container in a sandbox.
pub(crate) async fn create(node: Arc<Node>, sandbox: String, config: ContainerConfig) -> Result<Id> {
    let sandbox = node.book.sandbox(&sandbox)?;
    let name = super::name(&sandbox.id, &config)?;
    let _gate = sandbox.gate.lock().await;
    is_ready(&sandbox)?;
    let id = Id::random().map_err(|cause| Error::step("read random numbers", cause))?;
    node.book.reserve("container", &name, &id)?;
    let (on_node, of_sandbox, own_id) = (Arc::clone(&node), Arc::clone(&sandbox), id.clone());
    let made = blocking(move || make(&on_node, &of_sandbox, own_id, config)).await;
    let container = match made {
        Ok(container) => Arc::new(container),
        Err(error) => {
            node.book.release(&id);
            return Err(error);
        }
    };
    node.book.add_container(Arc::clone(&container));
    node.tell(&format!("{} of sandbox {} is created", called(&container), sandbox.id));
    events::tell(&node, ContainerEventType::ContainerCreatedEvent, &id, &sandbox);
    Ok(id)
}

pub(crate) fn is_ready(sandbox: &Sandbox) -> Result<()> {
    if sandbox.is(SandboxStage::Ready) {
        return Ok(());
    }
    Err(Error::State {
        what: "sandbox",
        id: sandbox.id.to_string(),
        state: "not ready",
        needed: "containers are made and started only in one that is ready",
    })
}

fn make(node: &Node, sandbox: &Sandbox, id: Id, config: ContainerConfig) -> Result<Container> {
    let places = node.layout.container(&id);
    // Most are started as soon as they are made.
    node.groups.soon();
    let pod = sandbox.record();
    let image = found(node, &config, pod.ids.as_ref())?;
    let target = target(node, sandbox, &config)?;
    let from = From { image: &image, mounts: image_mounts(node, &config)?, target };
    let start = ordered(node, sandbox, (&id, &config), &from)?;
    let log = log_path(&pod.config.log_directory, &config.log_path)?;
    // Only for what is not refused.
    order::make_missing(&config)?;
    relabel::volumes(node, &id, &config, start.rootfs.label.as_deref())?;
    let record = ContainerRecord {
        version: VERSION,
        id,
        sandbox: sandbox.id.clone(),
        created_at: now(),
        stage: ContainerStage::Making,
        image_name: image.called().to_owned(),
        image_id: image.id.to_string(),
        image_ref: image.digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
        stop_signal: order::stop_signal(&config, image.config.stop_signal.as_deref())?,
        cgroup: start.cgroup.path.clone(),
        log,
        config,
    };
    let container = Container::new(record, places, Life::Created);
    let written = write_down(node, &container, start, &from);
    if written.is_err() {
        // What is in the way of this is in the way of the next server, too, which says so.
        let _ = super::remove::take_files(node, &container);
    }
    written.map(|()| container)
}

/// An image, those that are mounted, and the PID namespace that is joined.
struct From<'a> {
    image: &'a Image,
    mounts: Vec<(Image, ImageMount)>,
    target: Option<Namespace>,
}

fn write_down(node: &Node, container: &Container, start: Start, from: &From<'_>) -> Result<()> {
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

/// Under whose name a container's images are held: its own, and those that it mounts by number.
pub(crate) fn holder(id: &Id, mount: Option<usize>) -> String {
    mount.map_or_else(|| format!("{HOLDER}{id}"), |mount| format!("{HOLDER}{id}-{mount}"))
}

/// How the names of all holders of ours begin.
pub(crate) const HOLDER: &str = "cri-";

/// The image, all of whose files have an owner in the pod.
fn found(node: &Node, config: &ContainerConfig, ids: Option<&bundle::IdLines>) -> Result<Image> {
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
        let source = order::resolve_image_mount(&layers, &mount.image_sub_path)
            .map_err(|refusal| refusal.below(&format!("mounts[{index}]")))?;
        found.push((image, ImageMount { index, source }));
    }
    Ok(found)
}

fn ordered(node: &Node, sandbox: &Sandbox, asked: (&Id, &ContainerConfig), from: &From<'_>) -> Result<Start> {
    let (id, config) = asked;
    let pod = sandbox.record();
    let mounts: Vec<ImageMount> = from.mounts.iter().map(|(_, mount)| mount.clone()).collect();
    let places = node.layout.container(id);
    let target = from.target.as_ref().map(|_| places.target());
    let asked = Asked {
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
    Ok(order::container(&asked)?)
}

/// The PID namespace of the container that this one wants to look into, held: by the time of the start, its
/// first process may have ended and its number be another's.
fn target(node: &Node, sandbox: &Sandbox, config: &ContainerConfig) -> Result<Option<Namespace>> {
    let security = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = security.and_then(|security| security.namespace_options.as_ref());
    let Some(options) = options.filter(|options| options.pid() == NamespaceMode::Target) else {
        return Ok(None);
    };
    let Ok(target) = node.book.container(&options.target_id) else { return Ok(None) };
    match target.life() {
        Life::Running(started) if target.sandbox == sandbox.id => {
            let process = Process::open(started.pid)?;
            let is_same = started.boot_id == node.boot_id && started.process().is_same();
            is_same.then(|| process.namespace(NamespaceKind::Pid)).transpose().map_err(Into::into)
        }
        _ => Ok(None),
    }
}

/// What was made for the sandbox.
fn place(sandbox: &Sandbox) -> Result<order::Place> {
    let (record, places) = (sandbox.record(), &sandbox.places);
    let own = Own::of(&record.config)?;
    let pin = |sharing: Sharing, kind| (sharing == Sharing::Pod).then(|| places.pin(kind));
    Ok(order::Place {
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
