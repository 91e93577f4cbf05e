use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use durable::Guard;
use monitor::{MonitorRecord, ProcessId, record};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::process::{geteuid, getpid, set_child_subreaper, setsid, umask};
use signal_hook::consts::{SIGCHLD, SIGTERM};

use crate::arguments::Arguments;
use crate::console::listener;
use crate::detach::READY;
use crate::pod::Pod;
use crate::shared::Shared;
use crate::slot::Slot;

/// Where cgroups are.
const HIERARCHIES: &str = "/sys/fs/cgroup";

/// Makes this process the monitor of a pod, and reports that it is ready.
pub(crate) fn settle(arguments: &Arguments) -> Result<Pod, String> {
    let slot = Slot::reserve()?;
    let dir = arguments.dir.clone();
    let lock = lock(&dir)?;
    let failed = |what: &'static str| move |errno: Errno| format!("cannot {what}: {errno}");
    setsid().map_err(failed("begin a session"))?;
    set_child_subreaper(Some(getpid())).map_err(failed("become the parent of orphans"))?;
    umask(Mode::WGRP | Mode::WOTH);
    let asked_to_end = Arc::new(AtomicBool::new(false));
    let signals = signals(&asked_to_end).map_err(|error| format!("cannot catch signals: {error}"))?;
    let mut shared =
        arguments.shared_pid.as_ref().map(|owner| Shared::find_or_start(&dir, owner)).transpose()?;
    let pod = Pod {
        listener: listen(&dir, shared.as_mut())?,
        dir,
        program: arguments.container_program.clone(),
        hierarchies: HIERARCHIES.into(),
        slot,
        signals,
        asked_to_end,
        shared,
        _lock: lock,
        connections: Vec::new(),
        containers: Vec::new(),
        detaching: Vec::new(),
        closed_until: None,
        last_key: 0,
    };
    say_ready(&pod.slot)?;
    Ok(pod)
}

/// The directory belongs to this monitor alone: its mode keeps other users out, its lock other monitors.
fn lock(dir: &Path) -> Result<Guard, String> {
    let file = File::open(dir).map_err(|error| format!("cannot open {}: {error}", dir.display()))?;
    let meta = file.metadata().map_err(|error| format!("cannot look at {}: {error}", dir.display()))?;
    if meta.uid() != geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(format!("{} must be this user's own and closed to others (0700)", dir.display()));
    }
    let guard = Guard::try_lock(file, dir).map_err(|error| error.to_string())?;
    guard.ok_or_else(|| format!("{} has a monitor already", dir.display()))
}

fn signals(asked_to_end: &Arc<AtomicBool>) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    signal_hook::flag::register(SIGTERM, Arc::clone(asked_to_end))?;
    signal_hook::low_level::pipe::register(SIGTERM, theirs.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGCHLD, theirs)?;
    Ok(ours)
}

/// A client that can connect can also read the monitor's record: the record is written first.
fn listen(dir: &Path, shared: Option<&mut Shared>) -> Result<std::os::fd::OwnedFd, String> {
    let said = |error: procfs::Error| error.to_string();
    let record = MonitorRecord {
        version: record::VERSION,
        process: ProcessId::of(std::process::id()).map_err(said)?,
        pid_namespace: shared
            .as_deref()
            .and_then(Shared::pid)
            .map(ProcessId::of)
            .transpose()
            .map_err(said)?,
    };
    let bytes = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
    durable::write(&dir.join(record::MONITOR), &bytes).map_err(|error| error.to_string())?;
    shared.map_or(Ok(()), Shared::recorded)?;
    let path = dir.join(record::SOCKET);
    listener(&path, SocketType::SEQPACKET)
        .map_err(|errno| format!("cannot listen at {}: {errno}", path.display()))
}

fn say_ready(slot: &Slot) -> Result<(), String> {
    rustix::io::write(rustix::stdio::stdout(), READY)
        .and_then(|_| rustix::stdio::dup2_stdout(slot.nothing()))
        .map_err(|errno| format!("cannot say that all is ready: {errno}"))
}
