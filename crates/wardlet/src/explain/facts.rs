use std::collections::BTreeMap;
use std::path::Path;

use plan::{Facts, HandlerFacts, Intent, RuntimeFacts};

use super::probe::{self, Subject};
use super::{pool, selinux};
use crate::failure::Failure;
use crate::node::Node;

/// What was taken for granted instead of found out.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    any: Vec<String>,
    of_isolation: Vec<String>,
}

impl Notes {
    pub(super) fn add(&mut self, text: String) {
        self.any.push(text);
    }

    /// Of interest only where somebody asks for a user namespace.
    pub(super) fn of_isolation(&mut self, text: String) {
        self.of_isolation.push(text);
    }

    /// Those that bear on these intents.
    pub(crate) fn for_intents(self, intents: &[&Intent]) -> Vec<String> {
        let isolated = intents.iter().any(|intent| intent.host_users == Some(false));
        let of_isolation = if isolated { self.of_isolation } else { Vec::new() };
        self.any.into_iter().chain(of_isolation).collect()
    }
}

/// The facts that a file states.
pub(crate) fn from_file(file: &Path) -> Result<Facts, Failure> {
    let hint = "`wardlet explain -o json` shows a node's facts under \"facts\"";
    let fail = |cause: String| Failure::unknown(format!("{}: {cause}", file.display())).with_hint(hint);
    let text = std::fs::read_to_string(file).map_err(|e| fail(format!("cannot be read: {e}")))?;
    serde_saphyr::from_str(&text).map_err(|e| fail(e.without_snippet().to_string()))
}

/// The facts of this node, as far as these intents need them.
pub(crate) fn of_node(node: &Node, intents: &[&Intent]) -> Result<(Facts, Notes), Failure> {
    let mut notes = Notes::default();
    let volumes = intents.iter().flat_map(|intent| &intent.volumes);
    let subject = Subject {
        host_root: node.host_root(),
        state_dir: node.state_dir(),
        host_paths: volumes.filter_map(|volume| volume.source.host_path()).collect(),
    };
    let (kernel, filesystems) = probe::tried(&subject, &mut notes);
    let selinux = selinux::facts(node.host_root(), &mut notes);
    let runtime = runtime(intents, &mut notes);
    let pool = pool::facts(&node.pool()?, node.config.settings.user_namespaces.max_ids_per_pod);
    Ok((Facts { kernel, filesystems, runtime, selinux, pool }, notes))
}

/// No runtime is asked: any that the pods could mean is taken to do what they need of it.
fn runtime(intents: &[&Intent], notes: &mut Notes) -> RuntimeFacts {
    notes.of_isolation(
        "the container runtime was not asked: it is taken to support user namespaces, but not with the host's network"
            .to_owned(),
    );
    let able = HandlerFacts { user_namespaces: true, recursive_read_only_mounts: true };
    let handlers: BTreeMap<String, HandlerFacts> =
        intents.iter().map(|intent| (intent.runtime_handler.clone(), able)).collect();
    RuntimeFacts { handlers, user_namespaces_host_network: false }
}
