//! Requests to the API server of a testbed as its administrator, and a watch on all pods that notes when what was seen.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use testbed::Testbed;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Body, http::Response};

const SERVER: &str = "https://127.0.0.1:6443";
/// How long anything may take until it is seen, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The API server's metrics are some megabytes.
const LONGEST_ANSWER: u64 = 64 << 20;

/// A client of one API server. Its connections are made inside the testbed's network.
#[derive(Clone)]
pub(super) struct Api {
    agent: ureq::Agent,
}

impl Api {
    pub(super) fn new(testbed: &Testbed) -> anyhow::Result<Self> {
        let kubeconfig = testbed.kubeconfig();
        let pki = kubeconfig.parent().context("a kubeconfig without a directory")?;
        let read = |name: &str| std::fs::read(pki.join(name)).with_context(|| name.to_owned());
        let authority = Certificate::from_pem(&read("ca.crt")?)?;
        let own = Certificate::from_pem(&read("admin.crt")?)?;
        let key = PrivateKey::from_pem(&read("admin.key")?)?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[authority]))
            .client_cert(Some(ClientCert::new_with_certs(&[own], key)))
            .build();
        let config = ureq::Agent::config_builder().http_status_as_error(false).tls_config(tls);
        Ok(Self { agent: config.build().new_agent() })
    }

    pub(super) fn get(&self, testbed: &Testbed, path: &str) -> anyhow::Result<String> {
        text(path, testbed.in_network(|| self.agent.get(format!("{SERVER}{path}")).call())?)
    }

    pub(super) fn post(&self, testbed: &Testbed, path: &str, object: &Value) -> anyhow::Result<()> {
        let request = self.agent.post(format!("{SERVER}{path}")).header("Content-Type", "application/json");
        text(path, testbed.in_network(|| request.send(object.to_string()))?).map(drop)
    }

    /// A merge patch; returns the new object.
    pub(super) fn patch(&self, testbed: &Testbed, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let request = self.agent.patch(format!("{SERVER}{path}"));
        let request = request.header("Content-Type", "application/merge-patch+json");
        let answer = text(path, testbed.in_network(|| request.send(patch.to_string()))?)?;
        serde_json::from_str(&answer).with_context(|| format!("the answer to a patch of {path}"))
    }

    pub(super) fn delete(&self, testbed: &Testbed, path: &str) -> anyhow::Result<()> {
        text(path, testbed.in_network(|| self.agent.delete(format!("{SERVER}{path}")).call())?).map(drop)
    }

    /// Follows all pods until the API server is gone, on a thread of its own.
    pub(super) fn watch(&self, testbed: &Testbed) -> Arc<Watched> {
        let (watched, api, name) = (Arc::new(Watched::default()), self.clone(), testbed.name().to_owned());
        let seen = Arc::clone(&watched);
        std::thread::spawn(move || {
            let ended = Testbed::attach(&name)
                .map_err(anyhow::Error::from)
                .and_then(|testbed| testbed.in_network(|| api.follow(&seen))?);
            seen.end(ended.err().map_or_else(|| "it ended".to_owned(), |error| format!("{error:#}")));
        });
        watched
    }

    fn follow(&self, seen: &Watched) -> anyhow::Result<()> {
        let url = format!("{SERVER}/api/v1/pods?watch=true&timeoutSeconds=7200");
        let answer = self.agent.get(url).call().context("a watch on pods")?;
        for line in BufReader::new(answer.into_body().into_reader()).lines() {
            let (line, at) = (line.context("a watch on pods")?, Instant::now());
            seen.note(&serde_json::from_str(&line).context("an event of a watch")?, at);
        }
        Ok(())
    }
}

fn text(path: &str, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<String> {
    let mut answer = answer.with_context(|| path.to_owned())?;
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string();
    let text = text.with_context(|| path.to_owned())?;
    if status.is_success() { Ok(text) } else { bail!("{path}: {status}: {text}") }
}

/// When something of a pod was seen first.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) ready: Option<Instant>,
    pub(super) gone: Option<Instant>,
    /// By the generation of the spec that the status is of.
    generations: BTreeMap<i64, Instant>,
}

impl Seen {
    /// When a status of this generation or a later one was seen first.
    pub(super) fn observed(&self, generation: i64) -> Option<Instant> {
        self.generations.range(generation..).map(|(_, at)| *at).min()
    }
}

/// What the watch has seen.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pods: Mutex<BTreeMap<String, Seen>>,
    ended: Mutex<Option<String>>,
    changed: Condvar,
}

impl Watched {
    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: String) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.changed.notify_all();
    }

    fn note(&self, event: &Value, at: Instant) {
        let Some(name) = event.pointer("/object/metadata/name").and_then(Value::as_str) else { return };
        let mut pods = self.pods();
        let seen = pods.entry(name.to_owned()).or_default();
        if event["type"] == "DELETED" {
            seen.gone.get_or_insert(at);
        } else if let Some(status) = event.pointer("/object/status") {
            if is_ready(status) {
                seen.ready.get_or_insert(at);
            }
            if let Some(generation) = status["observedGeneration"].as_i64() {
                seen.generations.entry(generation).or_insert(at);
            }
        }
        drop(pods);
        self.changed.notify_all();
    }

    /// Waits until this was seen of all these pods; returns when it was seen of the last.
    pub(super) fn until<'a>(
        &self,
        pods: &(impl Iterator<Item = &'a str> + Clone),
        seen: impl Fn(&str, &Seen) -> Option<Instant>,
    ) -> anyhow::Result<Instant> {
        let began = Instant::now();
        let mut all = self.pods();
        loop {
            let unseen = pods.clone().find(|pod| all.get(*pod).and_then(|one| seen(pod, one)).is_none());
            let Some(unseen) = unseen.map(str::to_owned) else {
                let times = pods.clone().filter_map(|pod| seen(pod, all.get(pod)?));
                return times.max().context("no pod to wait for");
            };
            if let Some(why) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                bail!("the watch on pods has ended: {why}");
            }
            if began.elapsed() > PATIENCE {
                bail!("pod {unseen}: not within {PATIENCE:?}");
            }
            let waited = self.changed.wait_timeout(all, Duration::from_secs(1));
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&self, pod: &str) {
        self.pods().remove(pod);
    }
}

/// Whether the status of a pod has the condition.
pub(super) fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Where the objects of a kind are.
pub(super) fn collection(kind: &str) -> String {
    format!("/api/v1/namespaces/default/{kind}")
}

/// Where one object is.
pub(super) fn object(kind: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, status: &Value) -> Value {
        json!({"type": kind, "object": {"metadata": {"name": "a"}, "status": status}})
    }

    #[test]
    fn the_first_time_counts_and_a_later_generation_includes_the_earlier_ones() {
        let watched = Watched::default();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "observedGeneration": 1});
        watched.note(&event("ADDED", &json!({"conditions": [{"type": "Ready", "status": "False"}]})), at(1));
        watched.note(&event("MODIFIED", &ready), at(2));
        watched.note(&event("MODIFIED", &ready), at(3));
        watched.note(&event("MODIFIED", &json!({"observedGeneration": 4})), at(4));
        watched.note(&event("DELETED", &ready), at(5));
        let names = ["a"].into_iter();
        assert_eq!(watched.until(&names, |_, seen| seen.ready).unwrap(), at(2));
        assert_eq!(watched.until(&names, |_, seen| seen.observed(3)).unwrap(), at(4));
        assert_eq!(watched.until(&names, |_, seen| seen.gone).unwrap(), at(5));
    }

    #[test]
    fn of_several_pods_the_last_one_counts_and_an_ended_watch_is_an_error() {
        let watched = Watched::default();
        let (one, other) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        for (name, at) in [("a", one), ("b", other)] {
            watched.note(&json!({"type": "DELETED", "object": {"metadata": {"name": name}}}), at);
        }
        assert_eq!(watched.until(&["b", "a"].into_iter(), |_, seen| seen.gone).unwrap(), other);
        watched.end("broken".into());
        let error = watched.until(&["c"].into_iter(), |_, seen| seen.gone).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
