//! What a credential provider is given and what it answers: CredentialProviderRequest and CredentialProviderResponse.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use types::DockerAuth;

const RESPONSE: &str = "CredentialProviderResponse";

/// What a credential provider is asked.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    kind: &'static str,
    api_version: &'a str,
    image: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    service_account_token: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service_account_annotations: BTreeMap<String, String>,
}

/// What is asked about.
#[derive(Clone, Default)]
pub(super) struct Question {
    /// The image, without tag and digest.
    pub(super) image: String,
    /// The token of the pod's service account; empty if the provider gets none.
    pub(super) token: String,
    /// Annotations of the service account.
    pub(super) annotations: BTreeMap<String, String>,
}

impl Question {
    pub(super) fn request<'a>(&'a self, api_version: &'a str) -> Request<'a> {
        Request {
            kind: "CredentialProviderRequest",
            api_version,
            image: &self.image,
            service_account_token: &self.token,
            service_account_annotations: self.annotations.clone(),
        }
    }
}

/// What a credential provider answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Response {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "apiVersion")]
    _api_version: String,
    cache_key_type: CacheKeyType,
    #[serde(default)]
    cache_duration: Option<GoDuration>,
    #[serde(default)]
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// For which images an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum CacheKeyType {
    Image,
    Registry,
    Global,
}

/// Credentials, by the images that they are for. `Debug` does not print them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) auths: Vec<(String, DockerAuth)>,
    pub(super) key: CacheKeyType,
    /// How long it is kept; `None`: as the provider is configured.
    pub(super) duration: Option<Duration>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { auths, key, duration } = self;
        let images: Vec<&String> = auths.iter().map(|(image, _)| image).collect();
        write!(f, "Answer {{ {images:?}, {key:?}, {duration:?} }}")
    }
}

/// The answer in what a provider has printed.
///
/// # Errors
/// What is wrong with it, without its text, which may have a password.
pub(super) fn answer(text: &[u8], api_version: &str) -> Result<Answer, String> {
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|_| "its answer is no JSON".to_owned())?;
    let field =
        |name: &str| value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    if field("apiVersion") != api_version {
        return Err(format!("its answer has apiVersion {:?}, not {api_version:?}", field("apiVersion")));
    }
    if field("kind") != RESPONSE {
        return Err(format!("its answer has kind {:?}, not {RESPONSE:?}", field("kind")));
    }
    if !["Image", "Registry", "Global"].contains(&field("cacheKeyType").as_str()) {
        return Err(format!(
            "cacheKeyType {:?} is none of Image, Registry and Global",
            field("cacheKeyType")
        ));
    }
    let response: Response =
        serde_json::from_value(value).map_err(|_| format!("its answer is no {RESPONSE}"))?;
    let Response { cache_key_type: key, cache_duration, auth, .. } = response;
    let entry = |(image, Auth { username, password })| {
        (image, DockerAuth { username, password, ..DockerAuth::default() })
    };
    let auths = auth.unwrap_or_default().into_iter().map(entry).collect();
    Ok(Answer { auths, key, duration: cache_duration.map(|duration| duration.0) })
}

/// A duration as Go writes it: `1h30m0.5s`.
struct GoDuration(Duration);

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration(&text).map(Self).ok_or_else(|| serde::de::Error::custom("it is no duration"))
    }
}

fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at_checked(end)?;
        let seconds: f64 = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = next;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

    #[test]
    fn a_request_has_the_image_and_what_is_known_of_the_service_account() {
        let mut question = Question { image: "quay.io/a".into(), ..Question::default() };
        let json = |question: &Question| serde_json::to_value(question.request(V1)).unwrap();
        let plain = json!({"kind": "CredentialProviderRequest", "apiVersion": V1, "image": "quay.io/a"});
        assert_eq!(json(&question), plain);
        question.token = "t".into();
        question.annotations = [("a.b/c".to_owned(), "d".to_owned())].into();
        let full = json(&question);
        assert_eq!(
            (&full["serviceAccountToken"], &full["serviceAccountAnnotations"]),
            (&json!("t"), &json!({"a.b/c": "d"}))
        );
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_named_and_never_shown() {
        let with = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = json!({
                "kind": RESPONSE, "apiVersion": V1, "cacheKeyType": "Registry", "cacheDuration": "1m30s",
                "auth": {"quay.io": {"username": "u", "password": "hunter2"}},
            });
            change(&mut value);
            answer(value.to_string().as_bytes(), V1)
        };
        let good = with(&|_| {}).unwrap();
        assert_eq!((good.key, good.duration), (CacheKeyType::Registry, Some(Duration::from_secs(90))));
        assert_eq!((good.auths[0].0.as_str(), good.auths[0].1.password.as_str()), ("quay.io", "hunter2"));
        assert!(!format!("{good:?}").contains("hunter2"));
        let empty = with(&|value| {
            value["auth"] = json!(null);
            value["cacheDuration"] = json!(null);
        });
        assert_eq!(empty.map(|answer| (answer.auths.len(), answer.duration)), Ok((0, None)));
        for (change, expected) in [
            (("apiVersion", json!("credentialprovider.kubelet.k8s.io/v1beta1")), "apiVersion"),
            (("kind", json!("Status")), "kind"),
            (("cacheKeyType", json!("Pod")), "\"Pod\" is none of Image, Registry and Global"),
            (("cacheDuration", json!("soon")), "is no CredentialProviderResponse"),
            (("cacheDuration", json!("-1s")), "is no CredentialProviderResponse"),
            (("more", json!("hunter2")), "is no CredentialProviderResponse"),
            (("auth", json!(["hunter2"])), "is no CredentialProviderResponse"),
        ] {
            let error = with(&|value| value[change.0] = change.1.clone()).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        assert_eq!(answer(b"hunter2", V1), Err("its answer is no JSON".to_owned()));
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1h2m3s", Some(3_723_000)),
            ("1.5s", Some(1500)),
            ("300ms", Some(300)),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
        for text in ["", "5", "-5s", "5 s", "s", "5x", "1e9999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
