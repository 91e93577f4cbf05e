//! Credential provider plugins: programs that know credentials of registries.
//!
//! A provider whose configuration names a matching image is asked for credentials before a pull. Its answer is kept. One
//! that fails gives none: the pull is tried with the credentials of others, or without any.

mod cache;
mod exec;
mod protocol;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

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

/// The configured providers.
#[derive(Debug, Default)]
pub(crate) struct Providers(Vec<Arc<Provider>>);

#[derive(Debug)]
struct Provider {
    config: CredentialProvider,
    scopes: Vec<Scope>,
    answers: Answers,
    /// Held while the program runs: pods that need the same answer wait for it.
    running: tokio::sync::Mutex<()>,
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
                running: tokio::sync::Mutex::default(),
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
        let _running = self.running.lock().await;
        if let Some(answer) = self.answers.get(image, &key) {
            return Ok(answer);
        }
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
