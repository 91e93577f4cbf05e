//! How the pods of a cluster are run on this node: planned with its facts, with what its runtime offers and with the
//! operator's policy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::node::facts::KeptTrials;
use ::node::{GateFlags, Node};
use admission::{Admitted, PodOrigin, RunningPods};
use agent::ports::BoxFuture;
use cri::StatusResponse;
use cri::client::Client;
use manifest::Object;
use plan::{Facts, Intent, Policy};
use tracing::warn;

use crate::reconcile::{Admission, StartError};

/// How long the runtime may take to answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// For how long its answer serves all pods: many can start at once.
const FRESH: Duration = Duration::from_secs(5);

/// Admission with the facts of this node and the features that its runtime reports.
pub struct NodeAdmission {
    node: Node,
    /// The node's name in the cluster.
    name: String,
    client: Client,
    /// Sysctls that the kubelet's configuration allows beside those of the policy.
    allowed_unsafe_sysctls: Vec<String>,
    trials: KeptTrials,
    /// The user namespaces of pods that a kubelet has left running here.
    left: RunningPods,
    /// The runtime's last answer, and when it came.
    status: tokio::sync::Mutex<Option<(Instant, Arc<StatusResponse>)>>,
    /// What was warned of: once each.
    warned: Mutex<Vec<String>>,
}

impl NodeAdmission {
    /// Admission to the node of this name, whose runtime is at `client`.
    #[must_use]
    pub fn new(node: Node, name: String, client: Client, allowed_unsafe_sysctls: Vec<String>) -> Self {
        Self {
            node,
            name,
            client,
            allowed_unsafe_sysctls,
            trials: KeptTrials::default(),
            left: RunningPods::default(),
            status: tokio::sync::Mutex::default(),
            warned: Mutex::default(),
        }
    }

    /// Beside pods that a kubelet has left running with these user namespaces: they keep what they have.
    #[must_use]
    pub fn beside(self, left: RunningPods) -> Self {
        Self { left, ..self }
    }

    /// The operator's policy with the node's feature gates.
    fn policy(&self) -> Result<Policy, StartError> {
        let settings = &self.node.config.settings;
        let resolved = settings.gates(GateFlags::default());
        let resolved = resolved.map_err(|error| {
            StartError::other("feature gates", format!("featureGates: {error}; {}", error.hint()))
        })?;
        let mut rules = settings.policy.clone();
        rules.allowed_unsafe_sysctls.extend(self.allowed_unsafe_sysctls.iter().cloned());
        Ok(Policy { gates: resolved.gates, rules })
    }

    fn facts(&self, intents: &[&Intent], status: &StatusResponse) -> Result<Facts, StartError> {
        let offers = doctor::runtime_offers(status);
        offers.contradicted.iter().for_each(|text| self.warn_once(text));
        let facts = self.trials.of_node(&self.node, intents, Some(offers.facts));
        let (facts, notes) =
            facts.map_err(|error| StartError::other("facts", format!("the facts of this node: {error}")))?;
        notes.for_intents(&[]).iter().for_each(|note| self.warn_once(note));
        Ok(facts)
    }

    fn warn_once(&self, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if !warned.iter().any(|known| known == text) {
            warn!("{text}");
            warned.push(text.to_owned());
        }
    }

    /// What the runtime says of itself. One pod asks, and the others wait for the same answer.
    async fn status(&self) -> Result<Arc<StatusResponse>, StartError> {
        let mut last = self.status.lock().await;
        if let Some((_, status)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Arc::clone(status));
        }
        let status = self.client.status(DEADLINE).await;
        let status = Arc::new(status.map_err(|error| StartError::other("runtime", error.to_string()))?);
        *last = Some((Instant::now(), Arc::clone(&status)));
        Ok(status)
    }

    async fn decide(&self, pod: &Object, origin: PodOrigin) -> Result<Box<Admitted>, StartError> {
        let policy = self.policy()?;
        let status = self.status().await?;
        let mut candidates = admission::consider(std::slice::from_ref(pod), &policy.gates);
        candidates.iter_mut().for_each(|candidate| candidate.origin = origin);
        let intents: Vec<&Intent> = candidates.iter().filter_map(|c| c.intent.as_ref()).collect();
        // Files are read and mounts are tried.
        let facts = tokio::task::block_in_place(|| self.facts(&intents, &status))?;
        let mut running = agent::running_pod(self.node.state_dir(), pod.namespace(), pod.name())?;
        let key = (pod.namespace().to_owned(), pod.name().to_owned());
        if let Some(users) = self.left.0.get(&key) {
            running.0.entry(key).or_insert(*users);
        }
        let decision = admission::admit(&candidates, &facts, &policy, &self.name, &running);
        let refusals = decision.refused.into_iter().flat_map(|refused| refused.refusals);
        let refusals: Vec<_> = refusals.collect();
        let admitted = decision.admitted.into_iter().next().map(Box::new);
        admitted.ok_or_else(|| StartError::refused(&refusals))
    }
}

impl Admission for NodeAdmission {
    fn admit<'a>(
        &'a self,
        pod: &'a Object,
        origin: PodOrigin,
    ) -> BoxFuture<'a, Result<Box<Admitted>, StartError>> {
        Box::pin(self.decide(pod, origin))
    }
}
