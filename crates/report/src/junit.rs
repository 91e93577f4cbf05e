//! The report as JUnit XML, for CI systems that show tests.
//!
//! A failure is what `--gate` fails on. A workload that only is not ready is skipped, with the reason: it
//! runs as it did. What was not understood is an error.

use std::collections::BTreeMap;

use check::{Break, Fix, Now, ObjectRef, Problem, Reason, Report, Verdict, Workload};

/// More of one workload than this are only counted.
const LISTED: usize = 20;

/// The whole file.
#[must_use]
pub fn render(report: &Report) -> String {
    let suites = [upgrade(report), user_namespaces(report), input(report)];
    let suites: Vec<&Suite> = suites.iter().filter(|suite| !suite.cases.is_empty()).collect();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let total = |count: fn(&Suite) -> usize| suites.iter().map(|suite| count(suite)).sum::<usize>();
    xml.push_str(&format!(
        "<testsuites name=\"wardlet check\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
        total(|suite| suite.cases.len()),
        total(|suite| suite.count(Outcome::is_failure)),
        total(|suite| suite.count(Outcome::is_error)),
    ));
    suites.iter().for_each(|suite| suite.write(&mut xml));
    xml.push_str("</testsuites>\n");
    xml
}

struct Suite {
    name: String,
    cases: Vec<Case>,
}

struct Case {
    class: String,
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    /// With a line and all there is to say.
    Failed(String, String),
    Skipped(String),
    Error(String, String),
}

impl Outcome {
    fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(..))
    }

    fn is_error(&self) -> bool {
        matches!(self, Self::Error(..))
    }

    fn is_skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }
}

impl Suite {
    fn count(&self, is: fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.outcome)).count()
    }

    fn write(&self, xml: &mut String) {
        xml.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
            escaped(&self.name),
            self.cases.len(),
            self.count(Outcome::is_failure),
            self.count(Outcome::is_error),
            self.count(Outcome::is_skipped),
        ));
        self.cases.iter().for_each(|case| case.write(xml));
        xml.push_str("  </testsuite>\n");
    }
}

impl Case {
    fn write(&self, xml: &mut String) {
        let (class, name) = (escaped(&self.class), escaped(&self.name));
        xml.push_str(&format!("    <testcase classname=\"{class}\" name=\"{name}\""));
        let with_text = |tag: &str, line: &str, text: &str| {
            format!(
                ">\n      <{tag} message=\"{}\">{}</{tag}>\n    </testcase>\n",
                escaped(line),
                escaped(text)
            )
        };
        xml.push_str(&match &self.outcome {
            Outcome::Passed => "/>\n".to_owned(),
            Outcome::Failed(line, text) => with_text("failure", line, text),
            Outcome::Error(line, text) => with_text("error", line, text),
            Outcome::Skipped(line) => {
                format!(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", escaped(line))
            }
        });
    }
}

/// Every workload once: what of it breaks.
fn upgrade(report: &Report) -> Suite {
    let name = format!("upgrade {} to {}", report.upgrade.from.version, report.upgrade.to.version);
    let fixes: BTreeMap<&str, &Fix> = report.fixes.iter().map(|fix| (fix.volume.as_str(), fix)).collect();
    let mut broken: BTreeMap<&ObjectRef, Vec<&Break>> = BTreeMap::new();
    for one in &report.breaks {
        one.workloads.iter().for_each(|workload| broken.entry(workload).or_default().push(one));
    }
    let of_cluster = report.breaks.iter().filter(|broken| broken.workloads.is_empty());
    let of_cluster = of_cluster.map(|broken| Case {
        class: "cluster".to_owned(),
        name: broken.volume.clone().unwrap_or_else(|| broken.text.clone()),
        outcome: Outcome::Failed(broken.text.clone(), String::new()),
    });
    let of_workloads = report.workloads.iter().map(|workload| {
        let broken = broken.get(&workload.object).map(Vec::as_slice).unwrap_or_default();
        case(&workload.object, failed(broken, &fixes))
    });
    Suite { name, cases: of_cluster.chain(of_workloads).collect() }
}

fn case(object: &ObjectRef, outcome: Outcome) -> Case {
    Case { class: format!("{}.{}", object.namespace, object.kind), name: object.name.clone(), outcome }
}

fn failed(broken: &[&Break], fixes: &BTreeMap<&str, &Fix>) -> Outcome {
    let [first, ..] = broken else { return Outcome::Passed };
    let mut lines: Vec<String> =
        broken.iter().take(LISTED).map(|broken| text_with_fix(broken, fixes)).collect();
    if broken.len() > LISTED {
        lines.push(format!("and {} more", broken.len() - LISTED));
    }
    Outcome::Failed(first.text.clone(), lines.join("\n"))
}

/// The break, and what settles it.
fn text_with_fix(broken: &Break, fixes: &BTreeMap<&str, &Fix>) -> String {
    let fix = broken.volume.as_deref().and_then(|volume| fixes.get(volume));
    match fix.and_then(|fix| fix.options.first()) {
        Some(option) => format!("{}\nfix: {}", broken.text, option.what),
        None => broken.text.clone(),
    }
}

fn user_namespaces(report: &Report) -> Suite {
    let cases = report.workloads.iter().map(|workload| case(&workload.object, readiness(workload))).collect();
    Suite { name: "user namespaces".to_owned(), cases }
}

fn readiness(workload: &Workload) -> Outcome {
    let told = |reason: &Reason| format!("{}: {} ({})", reason.field, reason.cause, reason.hint);
    let reasons: Vec<String> = workload.user_namespace.reasons.iter().map(told).collect();
    let first = reasons.first().cloned().unwrap_or_default();
    match (workload.user_namespace.verdict, workload.user_namespace.now) {
        (Verdict::Blocked, Now::Own) => Outcome::Failed(first, reasons.join("\n")),
        (Verdict::Blocked, Now::Host) => Outcome::Skipped(format!("blocked: {first}")),
        (Verdict::Risky, Now::Host) => Outcome::Skipped(format!("risky: {first}")),
        (Verdict::Risky, Now::Own) | (Verdict::Ready, _) => Outcome::Passed,
    }
}

fn input(report: &Report) -> Suite {
    let cases = report.problems.iter().map(|problem| Case {
        class: "input".to_owned(),
        name: place(problem),
        outcome: Outcome::Error(problem.cause.clone(), problem.hint.clone()),
    });
    Suite { name: "input".to_owned(), cases: cases.collect() }
}

fn place(problem: &Problem) -> String {
    match &problem.place {
        Some(place) => format!("{}:{}:{} {}", place.file, place.line, place.column, problem.field),
        None => problem.field.clone(),
    }
}

/// Text for XML. Characters that XML 1.0 cannot hold at all are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(escaped("a<b>&\"\0\n"), "a&lt;b&gt;&amp;&quot;\u{fffd}&#10;");
    }

    #[test]
    fn what_was_not_understood_is_an_error() {
        let problem = Problem { field: "spec".into(), cause: "]]> wrong".into(), ..Problem::default() };
        let xml = render(&Report { problems: vec![problem], ..Report::default() });
        assert!(xml.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{xml}");
        assert!(xml.contains("message=\"]]&gt; wrong\""), "{xml}");
    }
}
