//! The report as SARIF 2.1.0, for code scanning.
//!
//! - [`rules`]: what can be found, each with a name that stays.
//! - [`results`]: what was found.

mod results;
mod rules;

use serde_json::{Value, json};

use check::{Problem, Report};
use results::results;
use rules::RULES;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The whole log.
#[must_use]
pub fn render(report: &Report) -> String {
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "wardlet",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(rules::descriptor).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": report.problems.iter().map(notification).collect::<Vec<_>>(),
            }],
            "results": results(report),
        }],
    });
    format!("{log:#}\n")
}

/// Something that was not understood is no result: it is about the run.
fn notification(problem: &Problem) -> Value {
    let words = [&problem.field, &problem.cause, &problem.hint];
    let words: Vec<&str> = words.iter().map(|w| w.as_str()).filter(|w| !w.is_empty()).collect();
    let locations: Vec<Value> = problem.place.iter().map(results::location).collect();
    json!({"level": "warning", "message": {"text": words.join(": ")}, "locations": locations})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_report_is_a_whole_log_without_results() {
        let log: Value = serde_json::from_str(&render(&Report::default())).unwrap();
        assert_eq!(log["version"], "2.1.0");
        assert_eq!(log["runs"][0]["results"], json!([]));
    }
}
