//! TokenReview and SubjectAccessReview at the API server.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::BoxFuture;
use crate::user::User;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How many questions of a kind are asked at once.
const AT_ONCE: usize = 16;

/// Questions to the API server. Errors say why there is no answer.
pub trait Reviews: Send + Sync {
    /// The user of a token; `None` if it is not valid.
    fn token(&self, token: String) -> BoxFuture<'_, Result<Option<User>, String>>;
    /// Whether a user may do something.
    fn access(&self, question: AccessQuestion) -> BoxFuture<'_, Result<bool, String>>;
}

/// Whether a user may do something.
#[derive(Debug, Clone)]
pub struct AccessQuestion {
    /// The user.
    pub user: User,
    /// What it wants to do.
    pub action: Action,
}

/// What a user wants to do, in the words of RBAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A verb on a subresource of a node.
    Node {
        /// The verb; empty for a method that Kubernetes has no verb for.
        verb: String,
        /// The node.
        node: String,
        /// The subresource.
        subresource: String,
    },
    /// A verb on a path that is no resource: `get` on `/metrics`.
    Path {
        /// The verb: the method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

impl AccessQuestion {
    /// A text that is different for each question.
    pub(crate) fn key(&self) -> String {
        let user = &self.user;
        let action = match &self.action {
            Action::Node { verb, node, subresource } => {
                ["node", verb.as_str(), node.as_str(), subresource.as_str()]
            }
            Action::Path { verb, path } => ["path", verb.as_str(), path.as_str(), ""],
        };
        serde_json::json!([user.name, user.uid, user.groups, user.extra, action]).to_string()
    }

    fn review(self) -> SubjectAccessReview {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut spec = SubjectAccessReviewSpec {
            user: some(self.user.name),
            uid: some(self.user.uid),
            groups: Some(self.user.groups).filter(|groups| !groups.is_empty()),
            extra: Some(self.user.extra).filter(|extra| !extra.is_empty()),
            ..SubjectAccessReviewSpec::default()
        };
        match self.action {
            Action::Node { verb, node, subresource } => {
                spec.resource_attributes = Some(ResourceAttributes {
                    name: some(node),
                    resource: Some("nodes".to_owned()),
                    subresource: some(subresource),
                    verb: some(verb),
                    version: Some("v1".to_owned()),
                    ..ResourceAttributes::default()
                });
            }
            Action::Path { verb, path } => {
                spec.non_resource_attributes =
                    Some(NonResourceAttributes { path: some(path), verb: some(verb) });
            }
        }
        SubjectAccessReview { spec, ..SubjectAccessReview::default() }
    }
}

/// The API server.
pub struct ApiReviews {
    client: Client,
    /// Anyone can ask about a token: such questions do not keep known users waiting.
    of_tokens: Semaphore,
    of_users: Semaphore,
}

impl ApiReviews {
    /// With this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, of_tokens: Semaphore::new(AT_ONCE), of_users: Semaphore::new(AT_ONCE) }
    }

    async fn ask<T>(turns: &Semaphore, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
        let answer = async {
            // The semaphore is never closed.
            let _turn = turns.acquire().await.ok();
            request.await.map_err(|error| error.to_string())
        };
        let late = || format!("no answer within {} s", DEADLINE.as_secs());
        tokio::time::timeout(DEADLINE, answer).await.map_err(|_| late())?
    }
}

impl Reviews for ApiReviews {
    fn token(&self, token: String) -> BoxFuture<'_, Result<Option<User>, String>> {
        Box::pin(async move {
            let spec = TokenReviewSpec { token, audiences: None };
            let review = TokenReview { spec, ..TokenReview::default() };
            let api: Api<TokenReview> = Api::all(self.client.clone());
            let answer = Self::ask(&self.of_tokens, api.create(&PostParams::default(), &review)).await?;
            let status = answer.status.unwrap_or_default();
            if !status.authenticated.unwrap_or(false) {
                // An error is no decision, and is not kept.
                return status.error.filter(|error| !error.is_empty()).map_or(Ok(None), Err);
            }
            let user = status.user.unwrap_or_default();
            let name = user.username.filter(|name| !name.is_empty());
            let Some(name) = name else { return Err("the answer names no user".to_owned()) };
            Ok(Some(User {
                name,
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            }))
        })
    }

    fn access(&self, question: AccessQuestion) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(async move {
            let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let review = question.review();
            let params = PostParams::default();
            let status = Self::ask(&self.of_users, api.create(&params, &review)).await?.status;
            let Some(status) = status else { return Err("the answer has no status".to_owned()) };
            if status.allowed && status.denied == Some(true) {
                return Err("the answer both allows and denies".to_owned());
            }
            Ok(status.allowed)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers that do not depend on the question.
    pub(crate) struct Fixed {
        token: Result<Option<User>, String>,
        access: Result<bool, String>,
        asked: AtomicUsize,
    }

    impl Fixed {
        pub(crate) fn new(token: Result<Option<User>, String>, access: Result<bool, String>) -> Self {
            Self { token, access, asked: AtomicUsize::new(0) }
        }

        pub(crate) fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    impl Reviews for Fixed {
        fn token(&self, _: String) -> BoxFuture<'_, Result<Option<User>, String>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(self.token.clone()))
        }

        fn access(&self, _: AccessQuestion) -> BoxFuture<'_, Result<bool, String>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(self.access.clone()))
        }
    }

    fn jane() -> User {
        User {
            name: "jane".into(),
            uid: String::new(),
            groups: vec!["devs".into()],
            extra: [("scopes".to_owned(), vec!["a".to_owned()])].into(),
        }
    }

    #[test]
    fn a_question_names_user_node_and_subresource() {
        let action = Action::Node { verb: "get".into(), node: "n1".into(), subresource: "metrics".into() };
        let spec = serde_json::to_value(AccessQuestion { user: jane(), action }.review().spec).unwrap();
        let wanted = serde_json::json!({
            "user": "jane", "groups": ["devs"], "extra": {"scopes": ["a"]},
            "resourceAttributes":
                {"name": "n1", "resource": "nodes", "subresource": "metrics", "verb": "get", "version": "v1"},
        });
        assert_eq!(spec, wanted);
    }

    #[test]
    fn a_question_about_a_path_names_no_resource() {
        let action = Action::Path { verb: "get".into(), path: "/metrics".into() };
        let spec = serde_json::to_value(AccessQuestion { user: jane(), action }.review().spec).unwrap();
        let wanted = serde_json::json!({
            "user": "jane", "groups": ["devs"], "extra": {"scopes": ["a"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(spec, wanted);
    }
}
