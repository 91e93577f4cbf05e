//! What became of a PodCertificateRequest.

use k8s_openapi::api::certificates::v1::PodCertificateRequestStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::Moment;
use types::reason;

use crate::trust_bundles::{certificates, pem};

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is a certificate.
    Issued(Issued),
    /// There will be none.
    Refused(Refused),
    /// The request was deleted before it was answered.
    Gone,
}

/// A certificate, and when to replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issued {
    /// PEM, without anything between the certificates.
    pub(super) chain: String,
    pub(super) begin_refresh: Moment,
    pub(super) expires: Moment,
}

/// Why there will be no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The reason of the event: the type of the condition.
    pub(super) kind: &'static str,
    /// The words of the signer.
    pub(super) cause: String,
}

/// What the status of a request says; `None` while it is open.
pub(super) fn of(status: &PodCertificateRequestStatus) -> Option<Outcome> {
    let mut conditions = status.conditions.iter().flatten().filter(|one| one.status == "True");
    let kinds = [("Issued", None), ("Denied", Some(reason::DENIED)), ("Failed", Some(reason::FAILED))];
    let (kind, condition) = conditions.find_map(|condition| {
        let (_, kind) = kinds.iter().find(|(name, _)| *name == condition.type_)?;
        Some((*kind, condition))
    })?;
    let refused = |kind: &'static str, cause: String| Some(Outcome::Refused(Refused { kind, cause }));
    if let Some(kind) = kind {
        let words = [condition.reason.as_str(), condition.message.as_str()];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        return refused(kind, words.join(": "));
    }
    let chain = certificates(status.certificate_chain.as_deref().unwrap_or_default());
    let chain = match chain {
        Ok(chain) if !chain.is_empty() => pem(chain.iter().map(Vec::as_slice)),
        Ok(_) => return refused(reason::FAILED, "status.certificateChain has no certificate".to_owned()),
        Err(cause) => return refused(reason::FAILED, format!("status.certificateChain: {cause}")),
    };
    match (moment(status.begin_refresh_at.as_ref()), moment(status.not_after.as_ref())) {
        (Some(begin_refresh), Some(expires)) => {
            Some(Outcome::Issued(Issued { chain, begin_refresh, expires }))
        }
        _ => refused(reason::FAILED, "status.beginRefreshAt or status.notAfter is missing".to_owned()),
    }
}

fn moment(time: Option<&Time>) -> Option<Moment> {
    u64::try_from(time?.0.as_millisecond()).ok().map(Moment::from_millis)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(status: Value) -> Option<Outcome> {
        of(&serde_json::from_value(status).unwrap())
    }

    fn condition(kind: &str, reason: &str, message: &str) -> Value {
        json!([{"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-03-01T12:30:05Z"}])
    }

    #[test]
    fn a_request_is_open_until_it_is_issued_denied_or_failed() {
        assert_eq!(read(json!({})), None);
        assert_eq!(read(json!({"conditions": condition("Other", "", "")})), None);
        let refused = |kind: &str| match read(json!({"conditions": condition(kind, "No", "unknown pod")})) {
            Some(Outcome::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        };
        assert_eq!((refused("Denied").kind, refused("Failed").kind), ("Denied", "Failed"));
        assert_eq!(refused("Denied").cause, "No: unknown pod");
        let chain = format!("Subject: x\n{}# between\n{}", pem([&[1_u8][..]]), pem([&[2_u8][..]]));
        let mut status = json!({"conditions": condition("Issued", "", ""), "certificateChain": chain,
            "beginRefreshAt": "2026-03-01T12:30:05Z", "notAfter": "2026-03-01T13:30:05Z"});
        let Some(Outcome::Issued(issued)) = read(status.clone()) else { panic!("{status}") };
        assert_eq!(issued.chain, pem([&[1_u8][..], &[2]]), "nothing is between the certificates");
        assert_eq!(issued.expires.since(issued.begin_refresh).as_secs(), 3600);
        status["certificateChain"] = json!("none");
        assert!(matches!(read(status), Some(Outcome::Refused(_))));
    }
}
