//! How the pods of a cluster are run on this node: planned with its facts, with what its runtime offers and with the
//! operator's policy.

use std::sync::Arc;
use std::time::Duration;

use ::node::facts::KeptTrials;
use ::node::{GateFlags, Node};
use admission::{Admitted, PodOrigin, RunningPods};
use agent::ports::BoxFuture;
use cri::StatusResponse;
use cri::client::Client;
use manifest::Object;
use plan::{Facts, Intent, Policy};
use tokio::time::Instant;

use crate::reconcile::{Admission, StartError};
use crate::warned::WarnOnce;

/// How long the runtime may take to answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// For how long its answer serves all pods: many can start at once.
const FRESH: Duration = Duration::from_secs(5);
/// For how long a failed call does.
const FAILED: Duration = Duration::from_secs(1);

/// Admission with the facts of this node and the features that its runtime reports.
pub struct NodeAdmission {
    node: Node,
    /// The node's name in the cluster.
    name: String,
    /// Sysctls that the kubelet's configuration allows beside those of the policy.
    allowed_unsafe_sysctls: Vec<String>,
    trials: KeptTrials,
    /// The user namespaces of pods that a kubelet has left running here.
    left: RunningPods,
    status: RuntimeStatus,
    /// What was warned of.
    warned: WarnOnce,
}

/// The status of the runtime, asked for once for pods that start together.
struct RuntimeStatus {
    client: Client,
    /// The runtime's last answer, or why there was none, and when it was asked.
    last: tokio::sync::Mutex<Option<Asked>>,
}

/// The outcome of a Status call.
struct Asked {
    at: Instant,
    /// When the outcome is out of date.
    until: Instant,
    outcome: Result<Arc<StatusResponse>, String>,
}

impl Asked {
    /// Whether the outcome serves a caller that wanted it at this time: the call was made later, while the caller waited, or its
    /// outcome is not out of date.
    fn serves(&self, wanted: Instant) -> bool {
        wanted <= self.at || Instant::now() < self.until
    }
}

impl RuntimeStatus {
    fn new(client: Client) -> Self {
        Self { client, last: tokio::sync::Mutex::default() }
    }

    /// Pods that start while the runtime is asked, or shortly afterwards, get the same outcome.
    async fn get(&self) -> Result<Arc<StatusResponse>, StartError> {
        let wanted = Instant::now();
        let mut last = self.last.lock().await;
        let shared = last.as_ref().filter(|asked| asked.serves(wanted)).map(|asked| asked.outcome.clone());
        let outcome = match shared {
            Some(outcome) => outcome,
            None => {
                let at = Instant::now();
                let outcome =
                    self.client.status(DEADLINE).await.map(Arc::new).map_err(|error| error.to_string());
                let until = at + if outcome.is_ok() { FRESH } else { FAILED };
                last.insert(Asked { at, until, outcome }).outcome.clone()
            }
        };
        outcome.map_err(|error| StartError::other("runtime", error))
    }
}

impl NodeAdmission {
    /// Admission to the node of this name, whose runtime is at `client`.
    #[must_use]
    pub fn new(node: Node, name: String, client: Client, allowed_unsafe_sysctls: Vec<String>) -> Self {
        Self {
            node,
            name,
            allowed_unsafe_sysctls,
            trials: KeptTrials::default(),
            left: RunningPods::default(),
            status: RuntimeStatus::new(client),
            warned: WarnOnce::default(),
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
        offers.contradicted.iter().for_each(|text| self.warned.warn(text));
        let facts = self.trials.of_node(&self.node, intents, Some(offers.facts));
        let (facts, notes) =
            facts.map_err(|error| StartError::other("facts", format!("the facts of this node: {error}")))?;
        notes.for_intents(&[]).iter().for_each(|note| self.warned.warn(note));
        Ok(facts)
    }

    async fn decide(&self, pod: &Object, origin: PodOrigin) -> Result<Box<Admitted>, StartError> {
        let policy = self.policy()?;
        let status = self.status.get().await?;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use cri::image_service_server::ImageService;
    use cri::runtime_service_server::RuntimeService;
    use cri::server::Services;
    use cri::{Request, Response, Status, StatusRequest};

    use super::*;

    /// Answers after a second; the first `failures` times with an error.
    struct Counting {
        asked: Arc<AtomicU32>,
        failures: u32,
    }

    #[tonic::async_trait]
    impl RuntimeService for Counting {
        async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            if number < self.failures {
                return Err(Status::failed_precondition("no network yet"));
            }
            Ok(Response::new(StatusResponse::default()))
        }
    }

    struct NoImages;

    impl ImageService for NoImages {}

    async fn runtime(failures: u32) -> (RuntimeStatus, Arc<AtomicU32>) {
        let (ours, theirs) = tokio::io::duplex(4096);
        let asked = Arc::new(AtomicU32::new(0));
        let runtime = Counting { asked: Arc::clone(&asked), failures };
        tokio::spawn(Services { runtime, images: NoImages }.serve_over(theirs, std::future::pending()));
        (RuntimeStatus::new(Client::over(ours).await.unwrap()), asked)
    }

    /// As many pods as start together; how many of them got a status.
    async fn started(status: &RuntimeStatus) -> usize {
        let (a, b, c) = tokio::join!(status.get(), status.get(), status.get());
        [a, b, c].into_iter().filter(Result::is_ok).count()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_start_together_share_one_status() {
        let (status, asked) = runtime(0).await;
        assert_eq!((started(&status).await, asked.load(Ordering::SeqCst)), (3, 1));
        tokio::time::sleep(FRESH / 2).await;
        assert_eq!((started(&status).await, asked.load(Ordering::SeqCst)), (3, 1));
        tokio::time::sleep(FRESH).await;
        assert_eq!((started(&status).await, asked.load(Ordering::SeqCst)), (3, 2));
    }

    /// Each waited for a call of its own, one after the other, while the runtime did not answer.
    #[tokio::test(start_paused = true)]
    async fn pods_that_start_together_share_a_failure_and_later_ones_ask_again() {
        let (status, asked) = runtime(2).await;
        assert_eq!((started(&status).await, asked.load(Ordering::SeqCst)), (0, 1));
        let error = status.get().await.unwrap_err();
        assert!(error.message.contains("no network yet"), "{error:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the first failure is too old");
        tokio::time::sleep(FAILED).await;
        assert_eq!((started(&status).await, asked.load(Ordering::SeqCst)), (3, 3));
    }
}
