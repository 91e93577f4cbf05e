//! The facts that plans rest on: from a file, or found out on this node.
//!
//! - `probe`: what the kernel and the filesystems can do, by trying it.
//! - [`KeptTrials`]: its answers, for a process that needs them for one pod after another.
//! - [`selinux`]: whether SELinux is enforcing, and the labels that containers get by default.
//! - `pool`: how many blocks there are, and the longest.

mod kept;
mod pool;
mod probe;
pub mod selinux;

use std::collections::BTreeMap;
use std::path::Path;

use plan::{Facts, HandlerFacts, Intent, RuntimeFacts};

pub use self::kept::KeptTrials;
use self::probe::{Subject, Tried};
use crate::{Error, Node};

/// What was assumed because it could not be determined, in sentences for the user of a plan.
#[derive(Debug, Default)]
pub struct Assumptions {
    any: Vec<String>,
    of_isolation: Vec<String>,
}

impl Assumptions {
    pub(crate) fn add(&mut self, text: String) {
        self.any.push(text);
    }

    /// Adds one that matters only to pods with a user namespace.
    pub(crate) fn of_isolation(&mut self, text: String) {
        self.of_isolation.push(text);
    }

    /// Those that bear on these intents.
    #[must_use]
    pub fn for_intents(self, intents: &[&Intent]) -> Vec<String> {
        let isolated = intents.iter().any(|intent| intent.host_users == Some(false));
        let of_isolation = if isolated { self.of_isolation } else { Vec::new() };
        self.any.into_iter().chain(of_isolation).collect()
    }
}

/// The facts that a file states, as `wardlet explain -o json` writes them; YAML will do, too.
pub fn from_file(file: &Path) -> Result<Facts, Error> {
    let unreadable = |cause| Error::FactsUnreadable { file: file.to_owned(), cause };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let invalid = |cause: String| Error::FactsInvalid { file: file.to_owned(), cause };
    serde_saphyr::from_str(&text).map_err(|e| invalid(e.without_snippet().to_string()))
}

/// The facts of this node, as far as these intents need them. User namespaces and idmapped mounts are tried; what is
/// tried is undone. Without facts of the runtime it is assumed to do what the pods need.
pub fn of_node(
    node: &Node,
    intents: &[&Intent],
    runtime: Option<RuntimeFacts>,
) -> Result<(Facts, Assumptions), Error> {
    found(node, intents, runtime, probe::tried)
}

fn found(
    node: &Node,
    intents: &[&Intent],
    runtime: Option<RuntimeFacts>,
    tried: impl FnOnce(&Subject<'_>, &mut Assumptions) -> Tried,
) -> Result<(Facts, Assumptions), Error> {
    let mut notes = Assumptions::default();
    let volumes = intents.iter().flat_map(|intent| &intent.volumes);
    let subject = Subject {
        host_root: node.host_root(),
        state_dir: node.state_dir(),
        host_paths: volumes.filter_map(|volume| volume.source.host_path()).collect(),
    };
    let (kernel, filesystems) = tried(&subject, &mut notes);
    let selinux = selinux::facts(node.host_root(), &mut notes);
    let runtime = runtime.unwrap_or_else(|| assumed(intents, &mut notes));
    let pool = pool::facts(&node.pool()?, node.config.settings.user_namespaces.max_ids_per_pod);
    Ok((Facts { kernel, filesystems, runtime, selinux, pool }, notes))
}

/// No runtime was asked: each handler that the pods name is assumed to do what they need.
fn assumed(intents: &[&Intent], notes: &mut Assumptions) -> RuntimeFacts {
    notes.of_isolation(
        "the container runtime was not asked: it is taken to support user namespaces, but not with the host's network"
            .to_owned(),
    );
    let able = HandlerFacts { user_namespaces: true, recursive_read_only_mounts: true };
    let handlers: BTreeMap<String, HandlerFacts> =
        intents.iter().map(|intent| (intent.runtime_handler.clone(), able)).collect();
    RuntimeFacts { handlers, user_namespaces_host_network: false }
}
