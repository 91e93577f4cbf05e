use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use telemetry::metrics::{CONTENT_TYPE, Registry};
use tracing::{error, warn};

use super::answer::{Answer, kept, no_path, only_get, text};
use super::healthz::Health;
use super::kept::Kept;
use super::path::form;
use super::places::{Full, Places};
use super::route::Route;
use crate::pods::Pods;
use crate::usage::{Detail, Usage, resource_metrics, summary};

pub(super) const JSON: &str = "application/json";

/// What can be seen of a node: the paths of the read-only port, and of port 10250.
pub(crate) struct Shown {
    pub(crate) pods: Arc<dyn Pods>,
    pub(crate) registry: Registry,
    /// Runs of probes.
    pub(crate) probes: Registry,
    pub(crate) health: Health,
    /// What the node and its pods use.
    pub(crate) usage: Arc<dyn Usage>,
    pub(crate) limits: Limits,
}

/// What clients of one port can have the agent do and keep. Each port has its own: what clients without an identity take of
/// the read-only port is no less for those of port 10250.
pub(crate) struct Limits {
    // For requests of each path that wait for a read of all pods, or for the runtime: clients that may ask for one of them
    // cannot keep the others from being answered.
    summary: Arc<Places>,
    resource: Arc<Places>,
    containers: Arc<Places>,
    /// For answers, until their clients have taken them.
    answers: Arc<Places>,
    /// For their bytes.
    bytes: Arc<Places>,
}

impl Limits {
    /// Requests of each path.
    const EACH: usize = 8;
    /// Answers that are kept until their clients have taken them.
    const ANSWERS: usize = 64;
    /// Their bytes: four times as many as the largest of them has.
    const BYTES: usize = 128 << 20;

    /// Those of a port.
    pub(crate) fn of_port() -> Self {
        Self::new(Self::ANSWERS, Self::BYTES)
    }

    fn new(answers: usize, bytes: usize) -> Self {
        let turns = |what| Places::new(what, Self::EACH);
        Self {
            summary: turns("requests for the summary"),
            resource: turns("requests for metrics of resources"),
            containers: turns("requests for metrics of containers"),
            answers: Places::new("answers", answers),
            bytes: Places::new("bytes of answers", bytes),
        }
    }
}

/// What is asked of a path, and by which user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) method: &'a Method,
    pub(super) query: &'a str,
    pub(super) user: &'a str,
}

/// The whole text of an answer; or why there is none.
type Made = Result<Text, NotMade>;

struct Text {
    kind: &'static str,
    text: String,
}

/// Why there is no answer.
enum NotMade {
    Failed(String),
    Full(Full),
}

impl From<Full> for NotMade {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl Shown {
    /// The same for another port.
    pub(crate) fn of_other_port(&self) -> Self {
        Self {
            pods: Arc::clone(&self.pods),
            registry: self.registry.clone(),
            probes: self.probes.clone(),
            health: self.health.clone(),
            usage: Arc::clone(&self.usage),
            limits: Limits::of_port(),
        }
    }

    /// The answer of a path; 404 for one that is not of both ports.
    pub(super) async fn answer(&self, route: Route<'_>, question: Question<'_>) -> Answer {
        let Question { method, query, user } = question;
        let allowed: &[Method] = match route {
            Route::Summary => &[Method::GET, Method::POST],
            Route::HealthMetrics => &[Method::GET, Method::DELETE],
            _ => &[Method::GET],
        };
        if !allowed.contains(method) {
            return only_get();
        }
        match route {
            Route::Healthz(check) => return self.health.check(check, query),
            Route::HealthMetrics if method == Method::DELETE => {
                self.health.metrics.reset();
                return text(StatusCode::OK, "metrics reset\n");
            }
            _ => {}
        }
        let place = match self.limits.answers.take(user) {
            Ok(place) => place,
            Err(full) => return full.answer(),
        };
        match self.made(route, query, user).await {
            Ok(Some(Text { kind, text })) => match self.limits.bytes.take_many(user, text.len()) {
                Ok(size) => kept(kind, Kept::new(text, place, Some(size))),
                Err(full) => full.answer(),
            },
            Ok(None) => no_path(),
            Err(NotMade::Full(full)) => full.answer(),
            Err(NotMade::Failed(words)) => text(StatusCode::INTERNAL_SERVER_ERROR, words),
        }
    }

    /// `None` for a path that is not of both ports.
    async fn made(&self, route: Route<'_>, query: &str, user: &str) -> Result<Option<Text>, NotMade> {
        let made = match route {
            Route::Pods => self.list(|pods| pods.list()).await,
            Route::RunningPods => self.list(|pods| pods.running()).await,
            Route::Metrics => gathered(&self.registry).await,
            Route::ProbeMetrics => gathered(&self.probes).await,
            Route::HealthMetrics => Ok(Text { kind: CONTENT_TYPE, text: self.health.metrics.text() }),
            Route::ResourceMetrics => self.resource_metrics(user).await,
            Route::ContainerMetrics => self.container_metrics(user).await,
            Route::Summary => self.summary(query, user).await,
            _ => return Ok(None),
        };
        made.map(Some)
    }

    async fn list(&self, read: fn(&dyn Pods) -> Vec<Value>) -> Made {
        let pods = Arc::clone(&self.pods);
        let list = blocking(move || {
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": read(&*pods)}).to_string()
        });
        Ok(Text { kind: JSON, text: list.await? })
    }

    async fn summary(&self, query: &str, user: &str) -> Made {
        let _turn = self.limits.summary.take(user)?;
        let is_short = only_cpu_and_memory(query);
        let detail = if is_short { Detail::Rates } else { Detail::All };
        let node = self.usage.read(detail).await.map_err(NotMade::Failed)?;
        Ok(Text { kind: JSON, text: blocking(move || summary(&node, is_short).to_string()).await? })
    }

    async fn container_metrics(&self, user: &str) -> Made {
        let _turn = self.limits.containers.take(user)?;
        let text = self.usage.container_metrics().await.map_err(NotMade::Failed)?;
        Ok(Text { kind: CONTENT_TYPE, text })
    }

    async fn resource_metrics(&self, user: &str) -> Made {
        let _turn = self.limits.resource.take(user)?;
        let read = self.usage.read(Detail::CpuAndMemory).await;
        if let Err(words) = &read {
            warn!("what containers use cannot be read: {words}");
        }
        let text = blocking(move || resource_metrics(read.as_ref().map_err(|_| ()))).await?;
        Ok(Text { kind: CONTENT_TYPE, text })
    }
}

async fn gathered(registry: &Registry) -> Made {
    let registry = registry.clone();
    Ok(Text { kind: CONTENT_TYPE, text: blocking(move || registry.text()).await? })
}

/// Whether a query for the summary asks for CPU and memory alone: by one value, and no other word for it.
fn only_cpu_and_memory(query: &str) -> bool {
    let pairs = form(query);
    let mut values = pairs.iter().filter(|(name, _)| name == "only_cpu_and_memory").map(|(_, value)| value);
    values.next().is_some_and(|value| value == "true") && values.next().is_none()
}

async fn blocking(work: impl FnOnce() -> String + Send + 'static) -> Result<String, NotMade> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| {
        error!("a request ended early: {cause}");
        NotMade::Failed("Internal Server Error".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::SyncLoop;
    use crate::http::HealthMetrics;
    use crate::pods::ServedPod;
    use crate::usage::{NodeUsage, Reading};

    struct Fake;

    impl Pods for Fake {
        fn list(&self) -> Vec<Value> {
            vec![json!({})]
        }

        fn running(&self) -> Vec<Value> {
            Vec::new()
        }

        fn find(&self, _: &str, _: &str) -> Option<ServedPod> {
            None
        }
    }

    impl Usage for Fake {
        fn read(&self, _: Detail) -> Reading<'_, NodeUsage> {
            Box::pin(async { Err("nothing is known".to_owned()) })
        }

        fn container_metrics(&self) -> Reading<'_, String> {
            Box::pin(async { Err("nothing is known".to_owned()) })
        }
    }

    fn shown(limits: Limits) -> Shown {
        Shown {
            pods: Arc::new(Fake),
            registry: Registry::default(),
            probes: Registry::default(),
            health: Health { sync_loop: SyncLoop::default(), metrics: HealthMetrics::register().unwrap() },
            usage: Arc::new(Fake),
            limits,
        }
    }

    async fn ask(shown: &Shown, user: &str, route: Route<'_>) -> Answer {
        shown.answer(route, Question { method: &Method::GET, query: "", user }).await
    }

    /// A client could have the agent keep any number of answers that it does not take.
    #[tokio::test]
    async fn answers_that_are_not_taken_have_a_greatest_number() {
        let shown = shown(Limits::new(4, 1 << 20));
        let ask = async |user: &str, route| ask(&shown, user, route).await;
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.push(ask("jane", Route::Pods).await);
        }
        assert!(kept.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(ask("jane", Route::Pods).await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(ask("jane", Route::Healthz("")).await.status(), StatusCode::OK);
        kept.push(ask("joe", Route::RunningPods).await);
        assert_eq!(ask("ann", Route::Pods).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        kept.clear();
        assert_eq!(ask("jane", Route::Pods).await.status(), StatusCode::OK);
    }

    /// Answers were counted, whatever their size.
    #[tokio::test]
    async fn answers_that_are_not_taken_have_a_greatest_size() {
        let shown = shown(Limits::new(64, 100));
        let first = ask(&shown, "jane", Route::Pods).await;
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(ask(&shown, "jane", Route::Pods).await.status(), StatusCode::TOO_MANY_REQUESTS);
        drop(first);
        assert_eq!(ask(&shown, "jane", Route::Pods).await.status(), StatusCode::OK);
    }

    /// Clients of the read-only port, which have no identity, could take all answers of port 10250.
    #[tokio::test]
    async fn what_clients_take_of_one_port_is_no_less_for_those_of_another() {
        let shown = shown(Limits::new(1, 1 << 20));
        let other = shown.of_other_port();
        let _kept = ask(&shown, "192.0.2.1", Route::Pods).await;
        assert_eq!(ask(&shown, "192.0.2.2", Route::Pods).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        let _turns: Vec<_> =
            (0..Limits::EACH).map_while(|_| shown.limits.containers.take("192.0.2.1").ok()).collect();
        assert_eq!(ask(&other, "jane", Route::Pods).await.status(), StatusCode::OK);
        assert!(other.limits.containers.take("192.0.2.1").is_ok());
    }
}
