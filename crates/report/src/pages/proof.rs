//! The last proof of `wardlet verify`.

use serde::{Deserialize, Serialize};

/// What came of the last run of `wardlet verify`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LastProof {
    /// It has not run yet, or the first run has not ended.
    #[default]
    None,
    /// It does not run on this node for a page: the configuration says so.
    Disabled,
    /// It could not be run to its end.
    Failed {
        /// When.
        time: u64,
        /// Why.
        cause: String,
    },
    /// It ended.
    Done(Proof),
}

/// What `wardlet verify` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Proof {
    /// `holds`, `violated` or `unknown`.
    pub verdict: String,
    /// The pods that run.
    pub pods: Vec<ProvenPod>,
    /// What does not hold.
    pub violations: Vec<ProofViolation>,
    /// What could not be read, a sentence each.
    pub unseen: Vec<String>,
    /// What was looked at.
    pub evidence: ProofEvidence,
}

/// What a proof rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProofEvidence {
    /// When, in UTC.
    pub time: String,
    /// How many processes.
    pub processes: u64,
    /// How many mounts of pods.
    pub mounts: u64,
    /// How many files on these mounts.
    pub files: u64,
}

/// A pod in a proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvenPod {
    /// Its UID.
    pub uid: String,
    /// `isolated`, `notIsolated`, `violated` or `unseen`.
    pub verdict: String,
    /// How many processes it has.
    pub processes: u64,
    /// How many of its mounts were looked at.
    pub mounts: u64,
}

/// What does not hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProofViolation {
    /// What sort, as `verify` names it.
    pub what: String,
    /// The pod that it is about.
    pub pod: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// The file, mount point or namespace.
    pub path: Option<String>,
    /// What should be.
    pub expected: String,
    /// What is.
    pub found: String,
    /// What to do about it.
    pub hint: String,
    /// The UIDs of all pods that it touches.
    #[serde(rename = "pods")]
    pub touches: Vec<String>,
}

impl Proof {
    /// Reads what `wardlet verify -o json` has written. Fields that are not shown are ignored.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_verify_writes_is_read_and_its_other_fields_are_ignored() {
        let text = r#"{"holds": false, "verdict": "violated", "pods": [{"namespace": "shop", "name": "web", "uid": "u-1",
            "block": {"hostId": 65536, "length": 65536}, "processes": 2, "mounts": 9, "verdict": "violated",
            "knownBy": "kubernetes", "userNamespace": 7, "uidMap": [], "gidMap": [], "labels": []}],
            "violations": [{"what": "foreignProcess", "pod": "shop/web", "pid": 12, "path": null, "expected": "none",
            "found": "one", "hint": "find it", "pods": ["u-1"]}], "notes": [], "unseen": ["the mounts of x"],
            "evidence": {"time": "2026-01-01T00:00:00Z", "processes": 80, "mounts": 9, "files": 300, "looks": 2}}"#;
        let proof = Proof::read(text).unwrap();
        assert_eq!(
            (proof.verdict.as_str(), proof.pods[0].processes, proof.evidence.files),
            ("violated", 2, 300)
        );
        let violation = &proof.violations[0];
        assert_eq!((violation.pid, violation.path.as_deref(), violation.touches.len()), (Some(12), None, 1));
        assert!(Proof::read("no JSON").is_err());
    }
}
