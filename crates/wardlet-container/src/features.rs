//! What an engine says that it can do, and what it does when tried: not all that is said is true, and not all
//! that is true is said.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use container::{
    Bind, Cgroup, Console, ContainerSpec, Engine, Job, MountPropagation, MountSpec, NamespaceSpec,
    NamespaceSpecs, NewMount, Owners, Process, ReadOnly, Resources, Rootfs, Seccomp, WantedUser,
};

use ids::{IdMapping, IdMappings};
use kernel::Dir;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{run, sealed, sweep};

/// The word that makes this program look around in a container that it tries.
pub(crate) const TRIAL: &str = "look-around";
const BUILT_IN: &str = "libcontainer";
/// Where trials have their places.
const PLACES: &str = "/run";
/// The IDs of the trial, which no lease can have: a block of the last 65536 IDs would contain 4294967295, which is no ID.
/// What belongs to them is gone when the trial is over.
const IDS: u64 = 4_294_901_760;
const LENGTH: u64 = 65_535;

/// Prints what is known of an engine: the built-in one by its name, others by their path.
pub(crate) fn command(engine: &str, args: &[&str]) -> Result<(), Failure> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let engine = match engine {
        BUILT_IN => Engine::Libcontainer,
        path if path.starts_with('/') => Engine::Oci { path: path.into(), args },
        other => {
            return Err(
                Failure::of(format!("{other:?} is not an engine")).hinted("name a path or libcontainer")
            );
        }
    };
    let (says, silent) = match says(&engine) {
        Ok(said) => (said, Value::Null),
        Err(failure) => (Value::Null, json!(failure.what)),
    };
    let tried = match kernel::probe::idmap(Path::new("/")).works().then(|| try_out(&engine)) {
        Some(Ok(())) => json!({ "works": true, "cause": null }),
        Some(Err(failure)) => json!({ "works": false, "cause": failure.what }),
        // Images are elsewhere, so that this says nothing of the engine.
        None => json!({ "works": null, "cause": "it is tried over this host's /, which cannot be idmapped" }),
    };
    println!(
        "{}",
        json!({
            "engine": engine, "says": says, "saysNothing": silent, "tried": { "userNamespaceWithIdmappedBind": tried },
        })
    );
    Ok(())
}

fn says(engine: &Engine) -> Result<Value, Failure> {
    let Engine::Oci { path, args } = engine else {
        return Ok(json!({ "linux": {
            "namespaces": ["cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"],
            "cgroup": { "v1": true, "v2": true, "systemd": false },
            "seccomp": { "enabled": true },
            "mountExtensions": { "idmap": { "enabled": false } },
        } }));
    };
    let failed =
        |cause: &dyn std::fmt::Display| Failure::during(&format!("{} features", path.display()), cause);
    let done = Command::new(path).args(args).arg("features").output().map_err(|cause| failed(&cause))?;
    if !done.status.success() {
        return Err(failed(&String::from_utf8_lossy(&done.stderr)));
    }
    serde_json::from_slice(&done.stdout).map_err(|cause| failed(&cause))
}

/// Runs a container in a user namespace of its own over this host's files, with a directory of ours bound
/// through its maps, and has this program look around there.
fn try_out(engine: &Engine) -> Result<(), Failure> {
    let failed = |cause: std::io::Error| Failure::during("cannot make a place for the trial", cause);
    sweep_others()?;
    let id = format!("trial-{}", std::process::id());
    let place = Path::new(PLACES).join(format!("wardlet-{id}"));
    for name in ["volume", "upper", "work", "state"] {
        fs::create_dir_all(place.join(name)).map_err(failed)?;
    }
    fs::set_permissions(&place, fs::Permissions::from_mode(0o711)).map_err(failed)?;
    let outcome = in_place(engine, &place, &id);
    Dir::open(Path::new(PLACES))?.remove_tree(place.file_name().unwrap_or_default())?;
    outcome
}

/// Removes leftovers of trials whose processes were killed.
fn sweep_others() -> Result<(), Failure> {
    let places = Dir::open(Path::new(PLACES))?;
    for entry in places.entries()? {
        let maker = entry.name.to_str().and_then(|name| name.strip_prefix("wardlet-trial-"));
        let Some(maker) = maker.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if maker != std::process::id() && Path::new("/proc").join(maker.to_string()).exists() {
            continue;
        }
        // One that was killed early enough has nothing but its directory.
        if let Ok(job) = crate::files::job(&Path::new(PLACES).join(&entry.name).join("state")) {
            sweep::after_failure(&job)?;
        }
        places.remove_tree(&entry.name)?;
    }
    Ok(())
}

fn in_place(engine: &Engine, place: &Path, id: &str) -> Result<(), Failure> {
    let program = std::env::var_os(sealed::FILE).map(PathBuf::from);
    let program = program.ok_or_else(|| Failure::of("cannot find this program's file"))?;
    let job = Job {
        version: 1,
        engine: engine.clone(),
        run_dir: place.join("c"),
        start: start(place, id, &program)?,
    };
    let state = place.join("state");
    crate::files::write(&state.join("job.json"), json!(job).to_string().as_bytes())?;
    // Orphans of the trial become children of this process, which waits for them.
    set_child_subreaper(Some(getpid()))
        .map_err(|errno| Failure::during("cannot take in the container", errno))?;
    let started = run::start(&state, None)?;
    let pid = Pid::from_raw(started.process.pid());
    let ended = waitpid(pid, WaitOptions::empty());
    sweep::after_failure(&job)?;
    match ended.ok().flatten().and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(code) => {
            Err(Failure::of(format!("files of the volume are not the container's root's (code {code})")))
        }
        None => Err(Failure::of("the container ended before it had looked around")),
    }
}

/// What is done in the container: its root must own what the host's root owns, and be able to write there.
pub(crate) fn trial(volume: &Path) -> u8 {
    let owned = fs::metadata(volume).is_ok_and(|found| (found.uid(), found.gid()) == (0, 0));
    let written = fs::write(volume.join("written"), "").is_ok();
    match (owned, written) {
        (true, true) => 0,
        (false, _) => 10,
        (true, false) => 11,
    }
}

fn start(place: &Path, id: &str, program: &Path) -> Result<ContainerSpec, Failure> {
    let line = IdMapping::new(0, IDS, LENGTH).map_err(|cause| Failure::during("the trial's maps", cause))?;
    let ids = IdMappings { uids: vec![line], gids: vec![line] };
    let new = || NamespaceSpec::New;
    let word = |text: &Path| text.display().to_string();
    let target = Path::new("/run");
    Ok(ContainerSpec {
        id: id.to_owned(),
        rootfs: Rootfs {
            lowers: vec!["/".into()],
            upper: place.join("upper"),
            work: place.join("work"),
            read_only: false,
            owners: Owners::Idmap,
            label: None,
        },
        mounts: vec![
            MountSpec::New(NewMount { filesystem: "proc".into(), target: "/proc".into(), options: vec![] }),
            MountSpec::New(NewMount { filesystem: "tmpfs".into(), target: "/dev".into(), options: vec![] }),
            MountSpec::Bind(Bind {
                source: place.join("volume"),
                target: target.to_owned(),
                ids: Some(ids.clone()),
                read_only: ReadOnly::No,
                propagation: MountPropagation::None,
                options: vec![],
            }),
        ],
        volumes: vec![],
        namespaces: NamespaceSpecs {
            user: new(),
            network: new(),
            ipc: new(),
            uts: new(),
            pid: new(),
            cgroup: new(),
        },
        ids: Some(ids),
        process: Process {
            args: vec![word(program), TRIAL.to_owned(), word(target)],
            env: vec!["PATH=/usr/bin:/bin".into()],
            cwd: "/".into(),
            user: WantedUser::default(),
            capabilities: container::capabilities::Sets::default(),
            no_new_privileges: true,
            rlimits: vec![],
            oom_score_adj: None,
            apparmor_profile: None,
            selinux_label: None,
            seccomp: Seccomp::Unconfined,
            console: Console::Pipes,
        },
        hostname: None,
        sysctls: BTreeMap::new(),
        masked_paths: vec![],
        read_only_paths: vec![],
        devices: vec![],
        device_rules: vec![],
        cgroup: Cgroup { path: format!("/wardlet-{id}"), resources: Resources::default() },
        annotations: BTreeMap::new(),
    })
}
