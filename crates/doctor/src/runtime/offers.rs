//! What a runtime offers to pods, for plans: its claims, as far as the programs behind them bear them out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cri::StatusResponse;
use plan::{HandlerFacts, RuntimeFacts};

use super::config::Config;
use super::features::{self, Features};
use super::handlers::lack;

/// What a runtime offers, and which of its claims do not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeOffers {
    /// What pods can count on.
    pub facts: RuntimeFacts,
    /// Claims that the program behind a handler contradicts, one sentence each.
    pub contradicted: Vec<String>,
}

/// What the runtime with this verbose status offers. The OCI runtime behind each handler that claims user namespaces is
/// asked for its features, where the status names that program: containerd keeps the claim of the program that was there
/// when it started.
#[must_use]
pub fn runtime_offers(status: &StatusResponse) -> RuntimeOffers {
    offers(status, features::of)
}

fn offers(status: &StatusResponse, ask: impl Fn(&Path) -> Result<Features, String>) -> RuntimeOffers {
    let config = status.info.get("config").and_then(|text| Config::parse(text));
    let mut asked: BTreeMap<PathBuf, Option<Features>> = BTreeMap::new();
    let (mut handlers, mut contradicted) = (BTreeMap::new(), Vec::new());
    for handler in &status.runtime_handlers {
        let claimed = handler.features.unwrap_or_default();
        let mut user_namespaces = claimed.user_namespaces;
        let name = match handler.name.as_str() {
            "" => config.as_ref().map_or("", Config::default_handler),
            name => name,
        };
        let program = config.as_ref().and_then(|config| config.binary(name)).filter(|_| user_namespaces);
        if let Some(program) = program {
            let found = asked.entry(program.clone()).or_insert_with_key(|program| ask(program).ok());
            if let Some(lacking) = found.filter(|found| !found.user_namespaces || !found.idmapped_mounts) {
                user_namespaces = false;
                contradicted.push(format!(
                    "handler {name:?} claims user namespaces, but {} {}",
                    program.display(),
                    lack(lacking)
                ));
            }
        }
        let recursive_read_only_mounts = claimed.recursive_read_only_mounts;
        handlers.insert(handler.name.clone(), HandlerFacts { user_namespaces, recursive_read_only_mounts });
    }
    // The default handler is listed twice, once without its name.
    contradicted.dedup();
    let user_namespaces_host_network = status.features.is_some_and(|f| f.user_namespaces_host_network);
    RuntimeOffers { facts: RuntimeFacts { handlers, user_namespaces_host_network }, contradicted }
}

#[cfg(test)]
mod tests {
    use cri::{RuntimeFeatures, RuntimeHandler, RuntimeHandlerFeatures};

    use super::*;

    fn status(config: &str) -> StatusResponse {
        let handler = |name: &str, user_namespaces| RuntimeHandler {
            name: name.to_owned(),
            features: Some(RuntimeHandlerFeatures { user_namespaces, recursive_read_only_mounts: true }),
        };
        StatusResponse {
            runtime_handlers: vec![handler("", true), handler("runc", true), handler("old", false)],
            info: BTreeMap::from([("config".to_owned(), config.to_owned())]),
            features: Some(RuntimeFeatures { user_namespaces_host_network: true, ..Default::default() }),
            ..StatusResponse::default()
        }
    }

    const CONTAINERD: &str = r#"{"containerdRootDir":"/c","containerd":{"defaultRuntimeName":"runc","runtimes":{
        "runc":{"options":{"BinaryName":"/opt/runc"}},"old":{"options":{"BinaryName":"/opt/old"}}}}}"#;

    fn users(offers: &RuntimeOffers) -> Vec<(&str, bool)> {
        offers.facts.handlers.iter().map(|(name, facts)| (name.as_str(), facts.user_namespaces)).collect()
    }

    #[test]
    fn a_claim_counts_as_far_as_the_program_behind_it_bears_it_out() {
        let able = |idmapped_mounts| {
            move |program: &Path| {
                assert_eq!(program, Path::new("/opt/runc"), "only what is claimed is asked about");
                Ok(Features { user_namespaces: true, idmapped_mounts })
            }
        };
        let good = offers(&status(CONTAINERD), able(true));
        assert_eq!(users(&good), [("", true), ("old", false), ("runc", true)]);
        assert!(good.contradicted.is_empty() && good.facts.user_namespaces_host_network);
        let bad = offers(&status(CONTAINERD), able(false));
        assert_eq!(users(&bad), [("", false), ("old", false), ("runc", false)]);
        let said =
            "handler \"runc\" claims user namespaces, but /opt/runc cannot idmap mounts, as runc before 1.2";
        assert_eq!(bad.contradicted, [said]);
        assert!(bad.facts.handlers["runc"].recursive_read_only_mounts);
    }

    #[test]
    fn a_claim_that_cannot_be_examined_is_taken_as_it_is() {
        let silent = offers(&status(CONTAINERD), |_| Err("there is no such program".to_owned()));
        assert_eq!(users(&silent), [("", true), ("old", false), ("runc", true)]);
        let other = offers(&status("{}"), |_| panic!("it names no program"));
        assert_eq!(users(&other), users(&silent));
        assert!(other.contradicted.is_empty() && silent.contradicted.is_empty());
    }
}
