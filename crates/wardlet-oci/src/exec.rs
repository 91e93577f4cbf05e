//! `exec`: runs one more process in a container of a pod with a user namespace.

use std::path::Path;

use oci_records::{Record, Standing, first_process, init_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Exec;
use crate::error::{Error, Result};
use crate::hand_over;
use crate::isolation::{self, ExecOrder, JoinOrder};
use crate::site::Site;
use crate::spec::BLOCK_KEY;
use crate::unchanged;

/// Executes `exec`. The runtime runs in the pod's network namespace if it cannot join that by itself. It is an error if
/// the container does not run or is still being created.
pub(crate) fn exec(site: &Site<'_>, wanted: &Exec) -> Result<u8> {
    match site.records.get(&site.root(), &wanted.id)? {
        Some(Record { standing: Standing::Isolated { ids: Some(ids), .. }, pid_file, .. }) => {
            let container = wanted.id.clone();
            let gone = || match first_process(&pid_file, &ids) {
                Some(_) => Error::LeftNamespace { container },
                None => Error::Ended { container },
            };
            let init = init_of(&pid_file, &ids).ok_or_else(gone)?;
            let order = ExecOrder { init, process: process(wanted)?, ids, runtime: site.traits()? };
            let joined = isolation::join_for_exec(&order)?;
            let ended = hand_over::become_runtime(&site.runtime, &site.call.words);
            drop(joined);
            match ended? {}
        }
        Some(Record { standing: Standing::Isolated { ids: None, .. }, .. }) => {
            Err(Error::Sandbox { sandbox: wanted.id.clone(), cause: "is still being created".to_owned() })
        }
        Some(Record { standing: Standing::NotIsolated { .. }, .. }) => unchanged(site),
        None => {
            not_of_ours(site, &wanted.id)?;
            unchanged(site)
        }
    }
}

/// Refuses a container that has a user namespace from `wardlet-oci` but no record. The record is in another run
/// directory if this call reads another configuration than the create did; with the call passed on unchanged, the new
/// process would be in the host's network namespace or in the host's user namespace.
fn not_of_ours(site: &Site<'_>, id: &str) -> Result<()> {
    let Some(state) = state(site, id) else { return Ok(()) };
    let Ok(traits) = site.traits() else { return Ok(()) };
    // A process that cannot be inspected has ended, which the runtime reports.
    let escapes = if traits.kind.leaves_users_at_exec() {
        state.is_ours() && isolation::has_own_user_namespace(state.init).unwrap_or(false)
    } else {
        let is_left_out = traits.joins == JoinOrder::UsersFirst || !state.joins_a_network();
        is_left_out && isolation::is_in_foreign_network(state.init).unwrap_or(false)
    };
    if !escapes {
        return Ok(());
    }
    let run_dir = site.settings().run_dir.clone();
    Err(Error::Unrecorded { container: id.to_owned(), run_dir })
}

/// The runtime's `state.json`, as runc or youki writes it.
#[derive(Deserialize)]
struct State {
    #[serde(alias = "init_process_pid", alias = "pid")]
    init: u32,
    /// runc's.
    #[serde(default)]
    config: Value,
    /// youki's.
    #[serde(default)]
    annotations: Value,
}

impl State {
    /// Whether runc joins the container's network namespace at `exec`.
    fn joins_a_network(&self) -> bool {
        let namespaces = self.config.get("namespaces").and_then(Value::as_array);
        let is_network = |namespace: &Value| namespace.get("type").is_some_and(|kind| kind == "NEWNET");
        namespaces.is_none_or(|namespaces| namespaces.iter().any(is_network))
    }

    fn is_ours(&self) -> bool {
        self.annotations.get(BLOCK_KEY).is_some()
    }
}

fn state(site: &Site<'_>, id: &str) -> Option<State> {
    if id.contains('/') {
        return None;
    }
    let read = |root: &Path| {
        let text = std::fs::read(root.join(id).join("state.json")).ok()?;
        serde_json::from_slice(&text).ok()
    };
    match &site.call.globals.root {
        Some(root) => read(root),
        None => ["/run/runc", "/run/youki"].iter().find_map(|root| read(Path::new(root))),
    }
}

/// The OCI process: from the caller's file, or only its user, from the caller's `--user`.
fn process(wanted: &Exec) -> Result<Value> {
    if let Some(file) = &wanted.process {
        let text = crate::spec::read(file)?;
        return crate::spec::parse(&text).map_err(|cause| Error::spec(file, cause));
    }
    let (uid, gid) =
        wanted.user.as_deref().map_or(("0", "0"), |user| user.split_once(':').unwrap_or((user, "0")));
    let number = |id: &str| id.parse::<u32>().unwrap_or(0);
    Ok(json!({"user": {"uid": number(uid), "gid": number(gid)}}))
}
