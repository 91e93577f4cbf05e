//! Credential provider plugins: programs that know credentials of registries.
//!
//! A provider whose configuration names a matching image is asked for credentials before a pull. Its answer is kept. One
//! that fails gives none: the pull is tried with the credentials of others, or without any.

mod cache;
mod exec;
mod protocol;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::Semaphore;
use tracing::warn;
use types::{CredentialProvider, ImageName, ProviderToken, TokenCache};

use crate::blocking::blocking;
use crate::error::{Error, Result};
use crate::images::credential::{AccountRef, Credential, CredentialSource, hex};
use crate::images::providers::cache::{AccountKey, Answers};
use crate::images::providers::protocol::{Answer, Question};
use crate::images::scope::Scope;
use crate::metrics::images::ImageMetrics;
use crate::ports::{ObjectStore, PodRef, TokenRequest};

/// The lifetime of a token that a provider gets: the API server's default.
const TOKEN_SECONDS: i64 = 3600;
/// How many programs of a provider run at once.
const AT_ONCE: usize = 16;

/// The configured providers.
#[derive(Debug, Default)]
pub(crate) struct Providers(Vec<Arc<Provider>>);

#[derive(Debug)]
struct Provider {
    config: CredentialProvider,
    scopes: Vec<Scope>,
    answers: Answers,
    questions: Questions,
    /// Of [`AT_ONCE`] permits.
    running: Semaphore,
}

/// Held while a program is asked one thing.
type Asking = tokio::sync::Mutex<()>;

/// What the program is being asked, by image and account: pods that need the same answer wait for it, and no others.
#[derive(Debug, Default)]
struct Questions(Mutex<HashMap<(String, AccountKey), Weak<Asking>>>);

impl Questions {
    /// The lock to be held while the program is asked this.
    fn of(&self, image: &str, account: &AccountKey) -> Arc<Asking> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lock| lock.strong_count() > 0);
        let entry = all.entry((image.to_owned(), account.clone())).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let lock = Arc::default();
            *entry = Arc::downgrade(&lock);
            lock
        })
    }
}

/// A pod that an image is pulled for.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) pod: PodRef,
    /// Empty if it has none.
    pub(crate) service_account: String,
    pub(crate) objects: Arc<dyn ObjectStore>,
}

/// What a provider gets of a service account.
#[derive(Default)]
struct Account {
    /// `None` for a pod without one.
    reference: Option<AccountRef>,
    token: String,
    annotations: BTreeMap<String, String>,
}

impl Providers {
    pub(crate) fn new(configs: Vec<CredentialProvider>) -> Self {
        let provider = |config: CredentialProvider| {
            let scopes = config.match_images.iter().map(|image| Scope::of_address(image)).collect();
            Arc::new(Provider {
                config,
                scopes,
                answers: Answers::default(),
                questions: Questions::default(),
                running: Semaphore::new(AT_ONCE),
            })
        };
        Self(configs.into_iter().map(provider).collect())
    }

    /// The credentials for an image of all providers that know some, each provider's with the longest path first. What a
    /// provider does wrong is logged.
    pub(crate) async fn credentials(
        &self,
        image: &ImageName,
        asker: &Asker,
        metrics: &ImageMetrics,
    ) -> Vec<Credential> {
        let wanted = Scope::of_image(image);
        let mut all = Vec::new();
        for provider in &self.0 {
            if !provider.scopes.iter().any(|scope| scope.is_asked_about(&wanted)) {
                continue;
            }
            match provider.credentials(image, asker, metrics).await {
                Ok(mut found) => {
                    found.retain(|(scope, _)| scope.holds(&wanted));
                    all.append(&mut found);
                }
                Err(cause) => {
                    let name = &provider.config.name;
                    let PodRef { namespace, name: pod, .. } = &asker.pod;
                    warn!(
                        "credential provider {name}: no credentials for {image} of pod {namespace}/{pod}: {cause}"
                    );
                }
            }
        }
        all.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.depth()));
        all.into_iter().map(|(_, credential)| credential).collect()
    }
}

impl Provider {
    async fn credentials(
        self: &Arc<Self>,
        image: &ImageName,
        asker: &Asker,
        metrics: &ImageMetrics,
    ) -> std::result::Result<Vec<(Scope, Credential)>, String> {
        let account = match &self.config.token {
            None => Account::default(),
            Some(token) => match account(token.clone(), asker.clone()).await.map_err(|e| e.to_string())? {
                Some(account) => account,
                None => return Ok(Vec::new()),
            },
        };
        let source =
            account.reference.clone().map_or(CredentialSource::Node, CredentialSource::ServiceAccount);
        let answer = self.answer(image, account, metrics).await?;
        let credential = |(address, auth): (String, _)| {
            (Scope::of_address(&address), Credential::new(&auth, source.clone()))
        };
        Ok(answer.auths.into_iter().map(credential).collect())
    }

    async fn answer(
        &self,
        image: &ImageName,
        account: Account,
        metrics: &ImageMetrics,
    ) -> std::result::Result<Answer, String> {
        let key = self.key(&account);
        let image = image.repository();
        if let Some(answer) = self.answers.get(image, &key) {
            return Ok(answer);
        }
        let question = self.questions.of(image, &key);
        let _asked = question.lock().await;
        if let Some(answer) = self.answers.get(image, &key) {
            return Ok(answer);
        }
        // It is never closed.
        let _running = self.running.acquire().await;
        let Account { token, annotations, .. } = account;
        let question = Question { image: image.to_owned(), token, annotations };
        let begun = Instant::now();
        let answer = exec::ask(&self.config, &question).await;
        metrics.asked_provider(&self.config.name, begun, &answer);
        let answer = answer?;
        let is_of_account =
            self.config.token.as_ref().is_some_and(|token| token.cache == TokenCache::ServiceAccount);
        let is_echo = !question.token.is_empty()
            && answer.auths.iter().any(|(_, auth)| auth.password == question.token);
        if is_of_account && is_echo {
            let cause = "it returned the token of the service account as a password, which its cacheType does not allow";
            return Err(format!("{cause}: set tokenAttributes.cacheType to Token"));
        }
        self.answers.keep(image, key, &answer, self.config.default_cache_duration);
        Ok(answer)
    }

    /// What an answer for this account may be used for again.
    fn key(&self, account: &Account) -> AccountKey {
        let (Some(token), Some(reference)) = (&self.config.token, &account.reference) else {
            return AccountKey::default();
        };
        let AccountRef { namespace, name, uid } = reference.clone();
        let mut parts = vec![namespace, name, uid];
        parts.extend(account.annotations.iter().flat_map(|(key, value)| [key.clone(), value.clone()]));
        if token.cache == TokenCache::Token {
            let digest = ring::digest::digest(&ring::digest::SHA256, account.token.as_bytes());
            parts.push(hex(&digest.as_ref()));
        }
        AccountKey(parts)
    }
}

/// The service account of a pod, with a token; `None` if the provider is not to be asked for this pod.
async fn account(wanted: ProviderToken, asker: Asker) -> Result<Option<Account>> {
    let Asker { pod, service_account, objects } = asker;
    if service_account.is_empty() {
        return Ok((!wanted.is_account_required).then(Account::default));
    }
    blocking("getting a token for a credential provider", move || {
        let found = objects.service_account(&pod.namespace, &service_account)?;
        let found = found.ok_or_else(|| {
            Error::config(format!("service account {}/{service_account}", pod.namespace), "it does not exist")
        })?;
        let mut annotations = BTreeMap::new();
        for key in &wanted.required_annotations {
            match found.annotations.get(key) {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                // So a workload opts in.
                None => return Ok(None),
            };
        }
        for key in &wanted.optional_annotations {
            if let Some(value) = found.annotations.get(key) {
                annotations.insert(key.clone(), value.clone());
            }
        }
        let reference =
            AccountRef { namespace: pod.namespace.clone(), name: service_account.clone(), uid: found.uid };
        let request = TokenRequest {
            pod,
            service_account,
            audience: Some(wanted.audience),
            expiration_seconds: TOKEN_SECONDS,
        };
        let token = objects.token(&request)?.expose().to_owned();
        Ok(Some(Account { reference: Some(reference), token, annotations }))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use types::PodUid;

    use super::*;

    fn asker() -> Asker {
        let uid = PodUid::new("u-1").unwrap();
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid };
        Asker { pod, service_account: String::new(), objects: Arc::new(crate::Objects::default()) }
    }

    fn names(images: &[&str]) -> Vec<ImageName> {
        images.iter().map(|image| ImageName::parse(image).unwrap()).collect()
    }

    /// Providers of one program that notes each start in `starts`, answers at once about images of `quick`, and about others
    /// when the file `go` is there.
    fn slow(dir: &tempfile::TempDir) -> (Providers, ImageMetrics) {
        let program = dir.path().join("provider");
        let text = r#"#!/bin/sh
image=$(sed 's/.*"image":"\([^"]*\)".*/\1/')
echo "$image" >> "$DIR/starts"
case "$image" in *quick*) ;; *) while [ ! -e "$DIR/go" ]; do sleep 0.05; done ;; esac
printf '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{"%s":{"username":"u","password":"p"}}}' "$image"
"#;
        // Written and closed by another process: a descriptor that a concurrent test inherits would keep it busy.
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        let dir = dir.path().to_str().unwrap().to_owned();
        let providers = Providers::new(vec![CredentialProvider {
            name: "provider".into(),
            program,
            api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
            match_images: vec!["quay.io".into()],
            default_cache_duration: Duration::from_secs(60),
            args: Vec::new(),
            env: vec![types::EnvironmentVariable { name: "DIR".into(), value: dir }],
            token: None,
        }]);
        let metrics = crate::metrics::Metrics::register(&telemetry::metrics::Registry::default());
        (providers, metrics.unwrap().images)
    }

    fn starts(dir: &tempfile::TempDir) -> usize {
        std::fs::read_to_string(dir.path().join("starts")).unwrap_or_default().lines().count()
    }

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whatever a pod names, a program that hangs about it is not waited for by pods with other images.
    #[tokio::test]
    async fn a_provider_that_hangs_about_one_image_is_asked_about_others() {
        let dir = tempfile::tempdir().unwrap();
        let (providers, metrics) = slow(&dir);
        let images = names(&["quay.io/slow", "quay.io/quick"]);
        let asker = asker();
        let hangs = providers.credentials(&images[0], &asker, &metrics);
        let other = async {
            until(|| starts(&dir) == 1).await;
            let asked = providers.credentials(&images[1], &asker, &metrics);
            let found = tokio::time::timeout(Duration::from_secs(20), asked).await;
            std::fs::write(dir.path().join("go"), "").unwrap();
            found
        };
        let (late, quick) = tokio::join!(hangs, other);
        assert_eq!(quick.expect("it waited for the other image").len(), 1);
        assert_eq!((late.len(), starts(&dir)), (1, 2));
    }

    #[tokio::test]
    async fn pods_that_need_the_same_answer_wait_for_one_program() {
        let dir = tempfile::tempdir().unwrap();
        let (providers, metrics) = slow(&dir);
        let (image, asker) = (&names(&["quay.io/slow"])[0], asker());
        let go = async {
            until(|| starts(&dir) > 0).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::fs::write(dir.path().join("go"), "").unwrap();
        };
        let ask = || providers.credentials(image, &asker, &metrics);
        let (one, two, ()) = tokio::join!(ask(), ask(), go);
        assert_eq!((one.len(), two.len(), starts(&dir)), (1, 1, 1));
    }
}
