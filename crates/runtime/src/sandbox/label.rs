//! The SELinux label of a sandbox, and the category pairs of sandboxes and containers.
//!
//! A pair is the node's before it is in a record, and it is given back when nothing of its sandbox is left. The start of a
//! server tells the allocator what there is, for the case that the last one was killed in between.

use cri::{ContainerConfig, PodSandboxConfig};
use selinux::{CategoryPair, HostDefaults, Label, Level};
use tracing::warn;
use types::Refusal;

use crate::error::Result;
use crate::id::Id;
use crate::layout::{ContainerPlaces, SandboxPlaces};
use crate::node::Node;
use crate::records::SandboxRecord;
use crate::selinux::options;
use crate::store::Container;
use selinux::{CategoryPairs, PairInUse, PairSource, PairUser};

const FIELD: &str = "linux.security_context.selinux_options";

/// Labels a new sandbox, where SELinux is on. Blocks. The sandbox has its pair from then on, until [`release`].
pub(crate) fn label_of(node: &Node, record: &SandboxRecord) -> Result<Option<Label>> {
    let Some(host) = &node.facts.selinux else { return Ok(None) };
    let user = user_of(&record.id, &node.layout.sandbox(&record.id));
    let in_use = || in_use(node);
    new_label(host, &record.config, &Pairs { allocator: &*node.settings.pairs, user: &user, in_use: &in_use })
}

/// What a new label's pair comes from.
struct Pairs<'a> {
    allocator: &'a dyn CategoryPairs,
    user: &'a PairUser,
    in_use: &'a dyn Fn() -> Vec<PairInUse>,
}

/// The label of a sandbox's processes: what is asked for over what the host has for containers. Without a level it gets a
/// pair of categories that nothing else on the node has. A privileged one is not confined.
fn new_label(host: &HostDefaults, config: &PodSandboxConfig, pairs: &Pairs<'_>) -> Result<Option<Label>> {
    let security = config.linux.clone().unwrap_or_default().security_context.unwrap_or_default();
    if security.privileged {
        return Ok(None);
    }
    let asked = security.selinux_options.map(|asked| options(&asked)).unwrap_or_default();
    let refused = |error: selinux::LabelError| Refusal::new(FIELD, error.to_string());
    // Refused before a pair is taken.
    let named = host.process_label(&asked, None).map_err(refused)?;
    if asked.level.is_some() {
        if let Some(pair) = pair_of(&named) {
            pairs.allocator.reserve(pairs.user, pair)?;
        }
        return Ok(Some(named));
    }
    let pair = pairs.allocator.allocate(pairs.user, (pairs.in_use)())?;
    Ok(Some(host.process_label(&asked, Some(Level::of_pair(pair))).map_err(refused)?))
}

/// Gives back the pair of a sandbox of which nothing is left. Blocks.
pub(crate) fn release(node: &Node, record: &SandboxRecord) -> Result<()> {
    if node.facts.selinux.is_some() {
        node.settings.pairs.release(&user_of(&record.id, &node.layout.sandbox(&record.id)))?;
    }
    Ok(())
}

/// Keeps the pair that a container names, if it is another than its sandbox's. Blocks.
pub(crate) fn reserve_for_container(
    node: &Node,
    pod: &SandboxRecord,
    id: &Id,
    config: &ContainerConfig,
) -> Result<()> {
    if let (true, Some(pair)) = (node.facts.selinux.is_some(), container_pair(pod.label.as_ref(), config)) {
        node.settings.pairs.reserve(&user_of_container(id, &node.layout.container(id)), pair)?;
    }
    Ok(())
}

/// Gives back what [`reserve_for_container`] has kept, when nothing of the container is left. Blocks.
pub(crate) fn release_container(node: &Node, id: &Id, config: &ContainerConfig) -> Result<()> {
    if node.facts.selinux.is_some() && named_pair(config).is_some() {
        node.settings.pairs.release(&user_of_container(id, &node.layout.container(id)))?;
    }
    Ok(())
}

/// Tells the node's allocator which pairs are in use here. Blocks. If it fails, the next allocation still says so.
pub(crate) fn adopt_pairs(node: &Node) {
    if node.facts.selinux.is_none() {
        return;
    }
    match node.settings.pairs.adopt(node.layout.state(), in_use(node)) {
        Ok(conflicts) => conflicts.iter().for_each(|conflict| warn!("{conflict}")),
        Err(error) => warn!("the SELinux categories of pods that are gone are not free yet: {error}"),
    }
}

/// The pairs of all sandboxes and containers that have a record.
fn in_use(node: &Node) -> Vec<PairInUse> {
    let records: Vec<SandboxRecord> = node.store.sandboxes().iter().map(|sandbox| sandbox.record()).collect();
    let of_sandboxes = records.iter().filter_map(|record| {
        let source = if names_level(&record.config) { PairSource::Named } else { PairSource::Allocated };
        let user = user_of(&record.id, &node.layout.sandbox(&record.id));
        Some(PairInUse { user, pair: pair_of(record.label.as_ref()?)?, source })
    });
    let containers = node.store.containers();
    let of_containers = containers.iter().filter_map(|container: &std::sync::Arc<Container>| {
        let pod = records.iter().find(|record| record.id == container.sandbox)?;
        let user = user_of_container(&container.id, &container.places);
        let pair = container_pair(pod.label.as_ref(), &container.record().config)?;
        Some(PairInUse { user, pair, source: PairSource::Named })
    });
    of_sandboxes.chain(of_containers).collect()
}

fn names_level(config: &PodSandboxConfig) -> bool {
    let security = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let asked = security.and_then(|security| security.selinux_options.as_ref());
    asked.is_some_and(|asked| !asked.level.is_empty())
}

/// The pair that a container has beside its sandbox's.
fn container_pair(sandbox: Option<&Label>, config: &ContainerConfig) -> Option<CategoryPair> {
    named_pair(config).filter(|pair| sandbox.and_then(pair_of) != Some(*pair))
}

fn named_pair(config: &ContainerConfig) -> Option<CategoryPair> {
    let security =
        config.linux.as_ref()?.security_context.as_ref().filter(|security| !security.privileged)?;
    security.selinux_options.as_ref()?.level.parse::<Level>().ok()?.pair()
}

fn pair_of(label: &Label) -> Option<CategoryPair> {
    label.level()?.pair()
}

fn user_of(id: &Id, places: &SandboxPlaces) -> PairUser {
    PairUser { id: id.to_string(), dir: places.state.clone() }
}

fn user_of_container(id: &Id, places: &ContainerPlaces) -> PairUser {
    PairUser { id: id.to_string(), dir: places.state.clone() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use cri::{
        LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
        LinuxSandboxSecurityContext, SeLinuxOption,
    };

    use super::*;
    use selinux::PairError;

    const CONTEXTS: &str = "process = \"system_u:system_r:container_t:s0\"\n\
        file = \"system_u:object_r:container_file_t:s0\"\nro_file = \"system_u:object_r:container_ro_file_t:s0\"\n";

    /// Gives every user c1,c2, unless it is full, and writes down what it was asked.
    #[derive(Debug, Default)]
    struct Recording {
        calls: Mutex<Vec<String>>,
        is_full: bool,
    }

    impl Recording {
        fn call(&self, call: String) {
            self.calls.lock().unwrap().push(call);
        }

        fn calls(&self) -> Vec<String> {
            std::mem::take(&mut self.calls.lock().unwrap())
        }
    }

    impl CategoryPairs for Recording {
        fn allocate(&self, user: &PairUser, in_use: Vec<PairInUse>) -> Result<CategoryPair, PairError> {
            self.call(format!("allocate {} beside {}", user.id, in_use.len()));
            if self.is_full {
                let hint = Some("remove pods".to_owned());
                return Err(PairError { message: "all pairs have holders".to_owned(), hint });
            }
            Ok(CategoryPair::new(1, 2).unwrap())
        }

        fn reserve(&self, user: &PairUser, pair: CategoryPair) -> Result<(), PairError> {
            self.call(format!("reserve {} {pair}", user.id));
            Ok(())
        }

        fn release(&self, user: &PairUser) -> Result<(), PairError> {
            self.call(format!("release {}", user.id));
            Ok(())
        }

        fn adopt(&self, dir: &Path, in_use: Vec<PairInUse>) -> Result<Vec<String>, PairError> {
            self.call(format!("adopt {} below {}", in_use.len(), dir.display()));
            Ok(vec![])
        }
    }

    fn sandbox(level: &str, kind: &str, privileged: bool) -> PodSandboxConfig {
        let options = SeLinuxOption { level: level.into(), r#type: kind.into(), ..Default::default() };
        let security =
            LinuxSandboxSecurityContext { selinux_options: Some(options), privileged, ..Default::default() };
        let linux = LinuxPodSandboxConfig { security_context: Some(security), ..Default::default() };
        PodSandboxConfig { linux: Some(linux), ..Default::default() }
    }

    fn label(allocator: &Recording, config: &PodSandboxConfig) -> Result<Option<String>> {
        let user = PairUser { id: "box".into(), dir: "/state/box".into() };
        let pairs = Pairs { allocator, user: &user, in_use: &Vec::new };
        let label = new_label(&CONTEXTS.parse().unwrap(), config, &pairs)?;
        Ok(label.map(|label| label.to_string()))
    }

    #[test]
    fn a_sandbox_without_a_level_is_given_a_pair_and_one_with_a_level_reserves_its_own() {
        let allocator = Recording::default();
        let expected = Some("system_u:system_r:container_t:s0:c1,c2".to_owned());
        assert_eq!(label(&allocator, &sandbox("", "", false)).unwrap(), expected);
        assert_eq!(label(&allocator, &PodSandboxConfig::default()).unwrap(), expected);
        assert_eq!(allocator.calls(), ["allocate box beside 0", "allocate box beside 0"]);
        let named = label(&allocator, &sandbox("s0:c9,c4", "", false)).unwrap();
        assert_eq!(named.as_deref(), Some("system_u:system_r:container_t:s0:c4,c9"));
        assert_eq!(allocator.calls(), ["reserve box c4,c9"]);
    }

    #[test]
    fn a_level_that_is_no_pair_and_a_privileged_sandbox_take_none() {
        let allocator = Recording::default();
        assert!(label(&allocator, &sandbox("s0", "", false)).unwrap().is_some());
        assert!(label(&allocator, &sandbox("s0:c1.c9", "", false)).unwrap().is_some());
        assert_eq!(label(&allocator, &sandbox("", "", true)).unwrap(), None);
        assert_eq!(allocator.calls(), Vec::<String>::new());
    }

    #[test]
    fn a_label_that_cannot_be_is_refused_before_a_pair_is_taken() {
        let allocator = Recording::default();
        for config in [sandbox("", "no type", false), sandbox("nonsense", "", false)] {
            let error = label(&allocator, &config).unwrap_err();
            assert!(error.to_string().starts_with(FIELD), "{error}");
        }
        assert_eq!(allocator.calls(), Vec::<String>::new());
    }

    #[test]
    fn without_a_free_pair_there_is_no_sandbox_and_a_hint() {
        let allocator = Recording { is_full: true, ..Recording::default() };
        let error = label(&allocator, &sandbox("", "", false)).unwrap_err();
        assert_eq!(error.to_string(), "cannot allocate SELinux categories: all pairs have holders");
        assert_eq!(error.hint().as_deref(), Some("remove pods"));
    }

    #[test]
    fn a_container_has_a_pair_of_its_own_only_if_it_names_another_than_its_sandbox() {
        let config = |level: &str, privileged| {
            let options = SeLinuxOption { level: level.into(), ..Default::default() };
            let security = LinuxContainerSecurityContext {
                selinux_options: Some(options),
                privileged,
                ..Default::default()
            };
            let linux = LinuxContainerConfig { security_context: Some(security), ..Default::default() };
            ContainerConfig { linux: Some(linux), ..Default::default() }
        };
        let sandbox: Label = "system_u:system_r:container_t:s0:c1,c2".parse().unwrap();
        let pair = |config| container_pair(Some(&sandbox), &config).map(|pair| pair.to_string());
        assert_eq!(pair(config("s0:c3,c4", false)).as_deref(), Some("c3,c4"));
        for none in [config("s0:c1,c2", false), config("", false), config("s0:c3,c4", true)] {
            assert_eq!(pair(none), None);
        }
        assert_eq!(pair(ContainerConfig::default()), None);
    }
}
