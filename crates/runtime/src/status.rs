//! What this runtime is, whether it is ready, and what it can do.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use container::Engine;
use cri::{
    CgroupDriver, LinuxRuntimeConfiguration, RuntimeCondition, RuntimeConfigResponse, RuntimeFeatures,
    RuntimeHandler, RuntimeHandlerFeatures, RuntimeStatus, StatusResponse, VersionResponse,
};
use kernel::probe::{self, Answer};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Value, json};
use types::Refusal;

use crate::settings::{Programs, Settings};

/// The version of the contract between a kubelet and any runtime, which kubelets insist on.
const KUBELET_API: &str = "0.1.0";
const CRI: &str = "v1";
const NAME: &str = "wardlet";
/// How long the engine may take to run one trivial container. If it takes longer, the feature counts as missing until the
/// next start, so this is long enough for a node that is busy while it boots.
const TRIAL: Duration = Duration::from_secs(60);
/// More than the helper ever says.
const LONGEST: u64 = 1 << 20;

/// What was found out about this node and this server.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Whether containers can be run; why not, in a sentence.
    pub runtime: Result<(), String>,
    /// Whether pods can have a network.
    pub network: Result<(), String>,
    /// Why a pod could take another one's addresses, if it could.
    pub unguarded: Option<String>,
    /// What can start a container, the default first.
    pub handlers: &'a [Handler],
    /// Where containers' files are.
    pub state_dir: &'a Path,
    /// The other settings, a JSON object for the verbose status.
    pub settings: Value,
}

/// Something that starts containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// As it is asked for.
    pub name: String,
    /// What was seen to work with it.
    pub abilities: Abilities,
}

/// What was tried, and works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// A pod in a user namespace of its own, with its image and volumes idmapped.
    pub user_namespaces: bool,
    /// A mount that is read-only with all that is mounted below it.
    pub recursive_read_only: bool,
}

/// The name of the handler that starts containers with this engine.
#[must_use]
pub fn handler_name(engine: &Engine) -> String {
    match engine {
        Engine::Libcontainer => "libcontainer".to_owned(),
        Engine::Oci { path, .. } => {
            path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
        }
    }
}

/// Whether a sandbox can be asked for with this handler.
///
/// # Errors
/// If there is none of this name.
pub(crate) fn known_handler(settings: &Settings, asked: &str) -> Result<(), Refusal> {
    known(&settings.engine, asked)
}

fn known(engine: &Engine, asked: &str) -> Result<(), Refusal> {
    let known = handler_name(engine);
    if asked.is_empty() || asked == known {
        return Ok(());
    }
    let cause = format!("there is no handler {asked:?}, only {known:?}");
    Err(Refusal::new("runtime_handler", cause).with_hint("leave it empty for the default"))
}

/// Tries what the kernel and the filesystem of `state_dir` can do. It takes a while, and threads of its own.
#[must_use]
pub fn probe(state_dir: &Path) -> Abilities {
    Abilities {
        user_namespaces: user_namespaces(state_dir).is_ok(),
        recursive_read_only: recursive_read_only(state_dir),
    }
}

pub(crate) fn recursive_read_only(state_dir: &Path) -> bool {
    probe::recursive_read_only(state_dir).works()
}

/// Tries whether a pod can have a user namespace of its own, with its image and volumes idmapped.
///
/// # Errors
/// With why not.
pub(crate) fn user_namespaces(state_dir: &Path) -> Result<(), String> {
    works(&probe::user_namespaces())?;
    works(&probe::idmap(state_dir))?;
    works(&probe::overlay_idmap(state_dir))
}

fn works<T>(answer: &Answer<T>) -> Result<(), String> {
    answer.refusal().map_or(Ok(()), |refusal| Err(refusal.cause.clone()))
}

/// Has the helper run a container in a user namespace with this engine, over a volume of the host's root's.
///
/// # Errors
/// With why that does not work.
pub fn try_engine(helper: &Path, engine: &Engine) -> Result<(), String> {
    let named = match engine {
        Engine::Libcontainer => handler_name(engine),
        Engine::Oci { path, .. } => path.display().to_string(),
    };
    let mut command = Command::new(helper);
    command.arg("features").arg(&named).stdin(Stdio::null());
    if let Engine::Oci { args, .. } = engine {
        command.args(args);
    }
    let (status, said) =
        within(command, TRIAL).map_err(|cause| format!("cannot run {}: {cause}", helper.display()))?;
    match status {
        Some(status) if status.success() => tried(said.as_bytes()),
        Some(status) => Err(format!("{status}: {}", said.trim().replace('\n', " "))),
        None => Err(format!("a container was not started and ended within {} s", TRIAL.as_secs())),
    }
}

/// Runs a program and returns its exit status and output; kills it after `limit`. The start of the server waits for this.
/// The output goes to a file: a child of the program could keep a pipe open.
fn within(mut command: Command, limit: Duration) -> std::io::Result<(Option<ExitStatus>, String)> {
    let mut said = File::from(memfd_create("trial", MemfdFlags::CLOEXEC)?);
    command.stdout(said.try_clone()?).stderr(said.try_clone()?);
    let mut child = command.spawn()?;
    let since = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if since.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill()?;
                child.wait()?;
                break None;
            }
        }
    };
    let mut text = String::new();
    said.rewind()?;
    said.take(LONGEST).read_to_string(&mut text)?;
    Ok((status, text))
}

/// The status that a server with the built-in engine would report, found out without one: what is tried needs no server,
/// and leaves nothing. The network is not tried. `None` if the programs that try it are not beside this one.
#[must_use]
pub fn without_server(state_dir: &Path) -> Option<StatusResponse> {
    let programs = Programs::beside_this().ok()?;
    // The state directory may be made later, on the filesystem of what is above it.
    let state_dir = &std::path::absolute(state_dir).ok()?;
    let existing = state_dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
    let mut abilities = probe(existing);
    abilities.user_namespaces &= try_engine(&programs.container, &Engine::Libcontainer).is_ok();
    let facts = Facts {
        runtime: Ok(()),
        network: Ok(()),
        unguarded: None,
        handlers: &[Handler { name: handler_name(&Engine::Libcontainer), abilities }],
        state_dir,
        settings: Value::Null,
    };
    Some(status(&facts, Detail::Usual))
}

fn tried(said: &[u8]) -> Result<(), String> {
    let said: Value =
        serde_json::from_slice(said).map_err(|cause| format!("the helper's answer: {cause}"))?;
    let tried = said.pointer("/tried/userNamespaceWithIdmappedBind").cloned().unwrap_or_default();
    match (tried.get("works"), tried.get("cause").and_then(Value::as_str)) {
        // Null is what could not be found out here, which is not held against the engine.
        (Some(Value::Bool(true) | Value::Null), _) => Ok(()),
        (_, cause) => Err(cause.unwrap_or("the helper does not say whether it works").to_owned()),
    }
}

/// The level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What every caller needs.
    Usual,
    /// The settings, too.
    Verbose,
}

/// As CRI asks for it.
impl From<bool> for Detail {
    fn from(verbose: bool) -> Self {
        if verbose { Self::Verbose } else { Self::Usual }
    }
}

/// Whether the runtime is ready and what it can do.
#[must_use]
pub fn status(facts: &Facts<'_>, detail: impl Into<Detail>) -> StatusResponse {
    let default = facts.handlers.first();
    StatusResponse {
        status: Some(RuntimeStatus {
            conditions: vec![
                condition("RuntimeReady", "RuntimeNotReady", &facts.runtime),
                warned(condition("NetworkReady", "NetworkPluginNotReady", &facts.network), &facts.unguarded),
            ],
        }),
        info: if detail.into() == Detail::Verbose { info(facts) } else { BTreeMap::new() },
        runtime_handlers: default
            .map(|default| handler("", default.abilities))
            .into_iter()
            .chain(facts.handlers.iter().map(|known| handler(&known.name, known.abilities)))
            .collect(),
        features: Some(RuntimeFeatures {
            supplemental_groups_policy: true,
            // The host's network needs nothing that a user namespace alone does not.
            user_namespaces_host_network: facts.handlers.iter().any(|known| known.abilities.user_namespaces),
            mount_options: false,
        }),
    }
}

fn condition(kind: &str, reason: &str, holds: &Result<(), String>) -> RuntimeCondition {
    let (status, reason, message) = match holds {
        Ok(()) => (true, String::new(), String::new()),
        Err(why) => (false, reason.to_owned(), why.clone()),
    };
    RuntimeCondition { r#type: kind.to_owned(), status, reason, message }
}

/// It holds, and there is something to know about it.
fn warned(condition: RuntimeCondition, unguarded: &Option<String>) -> RuntimeCondition {
    match unguarded {
        Some(why) if condition.status => RuntimeCondition {
            reason: "PodAddressesNotGuarded".to_owned(),
            message: format!("pods are not kept from taking each other's addresses: {why}"),
            ..condition
        },
        _ => condition,
    }
}

fn handler(name: &str, abilities: Abilities) -> RuntimeHandler {
    RuntimeHandler {
        name: name.to_owned(),
        features: Some(RuntimeHandlerFeatures {
            recursive_read_only_mounts: abilities.recursive_read_only,
            user_namespaces: abilities.user_namespaces,
        }),
    }
}

/// Tools look for `stateDir` under `config` to learn which filesystem containers are on.
fn info(facts: &Facts<'_>) -> BTreeMap<String, String> {
    let mut config = facts.settings.clone();
    if !config.is_object() {
        config = json!({});
    }
    if let Some(config) = config.as_object_mut() {
        config.insert("stateDir".to_owned(), json!(facts.state_dir));
    }
    BTreeMap::from([("config".to_owned(), config.to_string())])
}

/// Name and version of this runtime.
#[must_use]
pub fn version() -> VersionResponse {
    VersionResponse {
        version: KUBELET_API.to_owned(),
        runtime_name: NAME.to_owned(),
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        runtime_api_version: CRI.to_owned(),
    }
}

/// How callers make and name control groups.
#[must_use]
pub fn runtime_config(driver: CgroupDriver) -> RuntimeConfigResponse {
    let linux = LinuxRuntimeConfiguration { cgroup_driver: driver.into() };
    RuntimeConfigResponse { linux: Some(linux) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(handlers: &[Handler]) -> Facts<'_> {
        Facts {
            runtime: Ok(()),
            network: Err("no bridge".to_owned()),
            unguarded: None,
            handlers,
            state_dir: Path::new("/var/lib/wardlet"),
            settings: json!({ "engine": "libcontainer" }),
        }
    }

    fn named(name: &str, user_namespaces: bool) -> Handler {
        Handler { name: name.into(), abilities: Abilities { user_namespaces, recursive_read_only: true } }
    }

    #[test]
    fn a_condition_that_does_not_hold_says_why() {
        let conditions = status(&facts(&[]), Detail::Usual).status.unwrap().conditions;
        let shown: Vec<_> =
            conditions.iter().map(|c| (c.r#type.as_str(), c.status, c.message.as_str())).collect();
        assert_eq!(shown, [("RuntimeReady", true, ""), ("NetworkReady", false, "no bridge")]);
        assert_eq!(conditions[1].reason, "NetworkPluginNotReady");
    }

    #[test]
    fn a_network_that_keeps_no_addresses_apart_is_ready_and_says_so() {
        let unguarded = Some("Operation not supported".to_owned());
        let network = |network| {
            let facts = Facts { network, unguarded: unguarded.clone(), ..facts(&[]) };
            let condition = status(&facts, Detail::Usual).status.unwrap().conditions.remove(1);
            (condition.status, condition.reason, condition.message)
        };
        let words = "pods are not kept from taking each other's addresses: Operation not supported";
        assert_eq!(network(Ok(())), (true, "PodAddressesNotGuarded".to_owned(), words.to_owned()));
        let (status, reason, message) = network(Err("no bridge".to_owned()));
        assert_eq!(
            (status, reason.as_str(), message.as_str()),
            (false, "NetworkPluginNotReady", "no bridge")
        );
    }

    #[test]
    fn the_default_handler_is_there_without_a_name_too() {
        let handlers = [named("libcontainer", true), named("runc", false)];
        let told = status(&facts(&handlers), Detail::Usual);
        let users = |handler: &RuntimeHandler| handler.features.unwrap().user_namespaces;
        let shown: Vec<_> = told.runtime_handlers.iter().map(|h| (h.name.as_str(), users(h))).collect();
        assert_eq!(shown, [("", true), ("libcontainer", true), ("runc", false)]);
        assert!(told.features.unwrap().user_namespaces_host_network);
    }

    #[test]
    fn a_handler_is_known_by_its_name_or_by_none() {
        let runc = Engine::Oci { path: "/usr/sbin/runc".into(), args: vec![] };
        for (engine, name) in [(&runc, ""), (&runc, "runc"), (&Engine::Libcontainer, "libcontainer")] {
            assert_eq!(known(engine, name), Ok(()));
        }
        let refusal = known(&runc, "kata").unwrap_err();
        assert_eq!(refusal.to_string(), r#"runtime_handler: there is no handler "kata", only "runc""#);
    }

    #[test]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo word; exec sleep 1000"]);
        let (status, said) = within(command, Duration::from_millis(300)).unwrap();
        assert_eq!((status, said.is_empty() || said == "word\n"), (None, true));
        let mut command = Command::new("sh");
        // A background process that keeps the output open does not delay the result.
        command.args(["-c", "sleep 2 & echo word"]);
        let (status, said) = within(command, Duration::from_secs(60)).unwrap();
        assert_eq!((status.is_some_and(|status| status.success()), said.as_str()), (true, "word\n"));
    }

    #[test]
    fn only_what_the_helper_saw_work_works() {
        let said = |works: &str| format!(r#"{{"tried":{{"userNamespaceWithIdmappedBind":{works}}}}}"#);
        assert_eq!(tried(said(r#"{"works":true,"cause":null}"#).as_bytes()), Ok(()));
        assert_eq!(tried(said(r#"{"works":null,"cause":"no way to try"}"#).as_bytes()), Ok(()));
        assert_eq!(tried(said(r#"{"works":false,"cause":"no"}"#).as_bytes()), Err("no".to_owned()));
        for strange in ["{}", r#"{"tried":true}"#, &said(r#"{"works":"yes"}"#), "words"] {
            assert!(tried(strange.as_bytes()).is_err(), "{strange}");
        }
    }

    #[test]
    fn nothing_is_claimed_that_did_not_work() {
        let told = status(&facts(&[named("runc", false)]), Detail::Usual);
        let features = told.features.unwrap();
        assert!(!features.user_namespaces_host_network && !features.mount_options);
        assert!(features.supplemental_groups_policy);
    }

    #[test]
    fn settings_are_told_to_whoever_asks_for_them() {
        assert!(status(&facts(&[]), Detail::Usual).info.is_empty());
        let info = status(&facts(&[]), Detail::Verbose).info;
        let config: Value = serde_json::from_str(&info["config"]).unwrap();
        assert_eq!(config, json!({ "engine": "libcontainer", "stateDir": "/var/lib/wardlet" }));
    }

    #[test]
    fn kubelets_get_the_version_that_they_insist_on() {
        assert_eq!((version().version.as_str(), version().runtime_api_version.as_str()), ("0.1.0", "v1"));
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            assert_eq!(runtime_config(driver).linux.unwrap().cgroup_driver(), driver);
        }
    }
}
