//! How a command came out, as the error stream tells it.

use serde::Deserialize;

use crate::error::{Error, Result};

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// A code, or why there is none.
pub(super) fn read(said: &[u8]) -> Result<i32> {
    let failed = |message: String| Error::Command { message };
    let text = String::from_utf8_lossy(said);
    let Ok(status) = serde_json::from_str::<Status>(&text) else {
        return Err(failed(if text.is_empty() {
            "it ended without a message".into()
        } else {
            text.into_owned()
        }));
    };
    if status.status == "Success" {
        return Ok(0);
    }
    let code = status.details.causes.iter().find(|cause| cause.reason == "ExitCode");
    code.and_then(|cause| cause.message.parse().ok()).ok_or_else(|| failed(status.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Ended;
    use crate::status::Outcome;

    #[test]
    fn what_a_server_says_is_what_a_client_reads() {
        let told = |outcome: Outcome| read(outcome.json().as_bytes()).map_err(|e| e.to_string());
        assert_eq!(told(Outcome::of_command(Ok(Ended::Code(0)))), Ok(0));
        assert_eq!(told(Outcome::of_command(Ok(Ended::Signal(9)))), Ok(137));
        let error = told(Outcome::of_command(Err("no such program".into()))).unwrap_err();
        assert!(error.ends_with("no such program"), "{error}");
        assert!(read(b"").is_err() && read(b"words").unwrap_err().to_string().contains("words"));
    }
}
