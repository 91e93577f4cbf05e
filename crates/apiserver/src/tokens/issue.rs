//! The request for a token at the API server.

use std::time::Duration;

use agent::ports::{BoxFuture, Token, TokenRequest};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::Request;
use kube::{Api, Client};
use lifecycle::Moment;
use serde_json::{Value, json};

use super::cache::{Issue, IssueError, Issued};
use crate::raw::{RawObject, cause, code, core};

/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// The pauses after which a request that is forbidden is repeated: the Node authorizer learns of the binding of a pod a
/// moment after the pod's node does.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(750)];

/// Requests tokens with this client.
pub(crate) fn issue(client: Client) -> Box<Issue> {
    Box::new(move |request| -> BoxFuture<'static, Result<Issued, IssueError>> {
        Box::pin(patient(client.clone(), request))
    })
}

async fn patient(client: Client, request: TokenRequest) -> Result<Issued, IssueError> {
    for pause in PAUSES {
        match create(&client, &request).await {
            Err(Failure::Forbidden(_)) => tokio::time::sleep(pause).await,
            done => return done.map_err(Failure::into),
        }
    }
    create(&client, &request).await.map_err(Failure::into)
}

/// Why a request failed.
enum Failure {
    Forbidden(String),
    Other(IssueError),
}

impl From<Failure> for IssueError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Forbidden(cause) => Self::Refused(cause),
            Failure::Other(error) => error,
        }
    }
}

/// The answer is not deserialised by kube, which logs the text of one that it cannot deserialise.
async fn create(client: &Client, request: &TokenRequest) -> Result<Issued, Failure> {
    let refused = |cause: String| Failure::Other(IssueError::Refused(cause));
    let unreachable = |cause: String| Failure::Other(IssueError::Unreachable(cause));
    let accounts = core("ServiceAccount", "serviceaccounts");
    let accounts = Api::<RawObject>::namespaced_with(client.clone(), &request.pod.namespace, &accounts);
    let body = body(request).to_string().into_bytes();
    let post = Request::new(accounts.resource_url()).create_subresource(
        "token",
        &request.service_account,
        &PostParams::default(),
        body,
    );
    let post = post.map_err(|error| refused(error.to_string()))?;
    match tokio::time::timeout(DEADLINE, client.request_text(post)).await {
        Ok(Ok(text)) => issued(&text).map_err(unreachable),
        Ok(Err(error)) if code(&error) == Some(403) => Err(Failure::Forbidden(cause(&error))),
        Ok(Err(error)) if code(&error).is_some_and(|code| code < 500) => Err(refused(cause(&error))),
        Ok(Err(error)) => Err(unreachable(cause(&error))),
        Err(_) => Err(unreachable(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

fn body(request: &TokenRequest) -> Value {
    let pod = &request.pod;
    // The list is empty for the API server's own audience.
    let audiences: Vec<&String> = request.audience.iter().collect();
    let spec = json!({
        "audiences": audiences,
        "expirationSeconds": request.expiration_seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid.as_str()},
    });
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

/// Reads the answer.
///
/// # Errors
/// The field that is missing; no value is in the message.
fn issued(text: &str) -> Result<Issued, String> {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |part: &str, name: &str| answer.get(part).and_then(|part| part.get(name)).cloned();
    let missing = |name: &str| format!("the API server's answer has no valid {name}");
    let token = field("status", "token").and_then(|token| token.as_str().map(str::to_owned));
    let token = token.filter(|token| !token.is_empty()).ok_or_else(|| missing("status.token"))?;
    let expires = field("status", "expirationTimestamp")
        .and_then(|time| time.as_str()?.parse::<Timestamp>().ok())
        .and_then(|time| u64::try_from(time.as_millisecond()).ok())
        .ok_or_else(|| missing("status.expirationTimestamp"))?;
    let lifetime = field("spec", "expirationSeconds").and_then(|seconds| seconds.as_u64());
    let lifetime = lifetime.ok_or_else(|| missing("spec.expirationSeconds"))?;
    Ok(Issued {
        token: Token::new(token),
        lifetime: Duration::from_secs(lifetime),
        expires: Moment::from_millis(expires),
    })
}

#[cfg(test)]
mod tests {
    use agent::ports::PodRef;
    use types::PodUid;

    use super::*;

    #[test]
    fn the_request_binds_the_token_to_the_pod() {
        let mut request = TokenRequest {
            pod: PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid::new("u-1").unwrap() },
            service_account: "robot".into(),
            audience: None,
            expiration_seconds: 3607,
        };
        let expected = json!({
            "audiences": [], "expirationSeconds": 3607,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u-1"},
        });
        assert_eq!(body(&request)["spec"], expected);
        request.audience = Some("vault".into());
        assert_eq!(body(&request)["spec"]["audiences"], json!(["vault"]));
    }

    #[test]
    fn an_answer_without_a_token_is_an_error_that_shows_no_value() {
        let answer = |token: &str, time: &str| {
            json!({"spec": {"expirationSeconds": 600}, "status": {"token": token, "expirationTimestamp": time}}).to_string()
        };
        let found = issued(&answer("s3cret", "2026-03-01T12:30:05Z")).unwrap();
        assert_eq!((found.token.expose(), found.lifetime.as_secs()), ("s3cret", 600));
        assert_eq!(found.expires.millis(), 1_772_368_205_000);
        assert!(!format!("{found:?}").contains("s3cret"));
        for text in [answer("", "2026-03-01T12:30:05Z"), answer("s3cret", "soon"), "{\"s3cret".to_owned()] {
            let error = issued(&text).unwrap_err();
            assert!(
                error.starts_with("the API server's answer has no valid status.")
                    && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
