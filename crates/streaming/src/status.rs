//! What the error stream says in the end.

use serde::Serialize;

use crate::handler::Ended;

/// How a command or an attachment came out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// A command's own code, from 1 to 255.
    Code(i32),
    /// What could not be done, and why.
    Failed(String),
}

impl Outcome {
    pub(crate) fn of_command(answer: Result<Ended, String>) -> Self {
        let code = match answer {
            Ok(Ended::Code(code)) => code,
            Ok(Ended::Signal(signal)) => signal.saturating_add(128),
            Err(cause) => return Self::Failed(format!("error executing command in container: {cause}")),
        };
        // A client reads eight bits; what does not fit is no success.
        match code {
            0 => Self::Success,
            1..=255 => Self::Code(code),
            _ => Self::Code(255),
        }
    }

    pub(crate) fn of_attachment(answer: Result<(), String>) -> Self {
        match answer {
            Ok(()) => Self::Success,
            Err(cause) => Self::Failed(format!("error attaching to container: {cause}")),
        }
    }

    /// For protocols before the fourth: nothing on success, else words.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Success => String::new(),
            Self::Code(code) => format!("command terminated with exit code {code}"),
            Self::Failed(cause) => format!("Internal error occurred: {cause}"),
        }
    }

    /// A `Status` of Kubernetes' API.
    pub(crate) fn json(&self) -> String {
        let mut status = Status { metadata: Empty {}, ..Status::default() };
        match self {
            Self::Success => status.status = "Success",
            Self::Code(code) => {
                let cause = Cause { reason: "ExitCode", message: code.to_string() };
                status.details = Some(Details { causes: [cause] });
                status.reason = Some("NonZeroExitCode");
            }
            Self::Failed(_) => {
                status.reason = Some("InternalError");
                status.code = Some(500);
            }
        }
        if *self != Self::Success {
            status.status = "Failure";
            status.message = Some(self.text());
        }
        // A structure of strings and numbers always has a form in JSON.
        serde_json::to_string(&status).unwrap_or_default()
    }
}

#[derive(Default, Serialize)]
struct Status {
    metadata: Empty,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Default, Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Details {
    causes: [Cause; 1],
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_said_in_json_and_not_in_words() {
        let outcome = Outcome::of_command(Ok(Ended::Code(0)));
        assert_eq!(outcome.json(), r#"{"metadata":{},"status":"Success"}"#);
        assert_eq!(outcome.text(), "");
    }

    #[test]
    fn an_exit_code_is_a_cause() {
        let json: serde_json::Value =
            serde_json::from_str(&Outcome::of_command(Ok(Ended::Code(3))).json()).unwrap();
        assert_eq!(json["status"], "Failure");
        assert_eq!(json["reason"], "NonZeroExitCode");
        assert_eq!(json["details"]["causes"][0]["reason"], "ExitCode");
        assert_eq!(json["details"]["causes"][0]["message"], "3");
        assert_eq!(json["message"], "command terminated with exit code 3");
    }

    #[test]
    fn a_signal_is_a_code_above_128() {
        assert_eq!(Outcome::of_command(Ok(Ended::Signal(9))), Outcome::Code(137));
    }

    #[test]
    fn a_code_that_does_not_fit_is_no_success() {
        assert_eq!(Outcome::of_command(Ok(Ended::Code(256))), Outcome::Code(255));
        assert_eq!(Outcome::of_command(Ok(Ended::Code(-1))), Outcome::Code(255));
        assert_eq!(Outcome::of_command(Ok(Ended::Signal(i32::MAX))), Outcome::Code(255));
    }

    #[test]
    fn a_failure_has_its_cause_in_words() {
        let outcome = Outcome::of_attachment(Err("no such \"container\"".into()));
        let json: serde_json::Value = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!(json["reason"], "InternalError");
        assert_eq!(json["code"], 500);
        assert_eq!(json["message"], outcome.text());
        assert!(outcome.text().ends_with("error attaching to container: no such \"container\""));
    }
}
