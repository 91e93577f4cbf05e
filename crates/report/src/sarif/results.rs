use std::collections::BTreeMap;

use check::{
    Conflict, ConflictSide, Driver, Now, ObjectRef, Reason, Report, SelinuxFinding, SelinuxRule, Severity,
    SourcePosition, Verdict, Weight, When, Workload,
};
use serde_json::{Value, json};

use super::rules;

/// One result for each thing that was found, in the report's order.
pub(super) fn results(report: &Report) -> Vec<Value> {
    let places: BTreeMap<&ObjectRef, &SourcePosition> =
        report.workloads.iter().filter_map(|w| Some((&w.object, w.source.as_ref()?))).collect();
    let conflicts = report.conflicts.iter().map(|conflict| of_conflict(&places, conflict));
    let drivers = report.drivers.iter().map(of_driver);
    let workloads = report.workloads.iter().flat_map(of_workload);
    conflicts.chain(drivers).chain(workloads).collect()
}

/// What a result is made of.
struct SarifResult<'a> {
    rule: &'static str,
    level: &'static str,
    text: String,
    objects: Vec<(&'a ObjectRef, Option<&'a SourcePosition>)>,
    /// What tells it from others of its rule, whatever else changes in the file.
    key: String,
}

impl SarifResult<'_> {
    fn result(self) -> Value {
        let locations: Vec<Value> =
            self.objects.iter().map(|(object, place)| object_location(object, *place)).collect();
        json!({
            "ruleId": self.rule,
            "ruleIndex": rules::index(self.rule),
            "level": self.level,
            "message": {"text": self.text},
            "locations": locations,
            "partialFingerprints": {"wardlet/v1": self.key},
        })
    }
}

fn named(object: &ObjectRef) -> String {
    format!("{} {}/{}", object.kind, object.namespace, object.name)
}

fn of_conflict(places: &BTreeMap<&ObjectRef, &SourcePosition>, conflict: &Conflict) -> Value {
    let place = |side: &ConflictSide| places.get(&*side.one()).copied();
    let side = |side: &ConflictSide| match side.value.as_str() {
        "" => format!("{} (no label)", side.named()),
        value => format!("{} ({value})", side.named()),
    };
    let (a, b) = (&conflict.a, &conflict.b);
    let text = format!(
        "{} and {} share the volume {} and differ in {}: {}",
        side(a),
        side(b),
        conflict.volume,
        conflict.property,
        conflict.why
    );
    SarifResult {
        rule: "selinux-conflict",
        level: conflict_level(conflict),
        text,
        objects: vec![(&a.workload, place(a)), (&b.workload, place(b))],
        key: [conflict.property.name(), &conflict.volume, &side(a), &side(b)].join("|"),
    }
    .result()
}

fn conflict_level(conflict: &Conflict) -> &'static str {
    match (conflict.severity, conflict.when) {
        (Severity::CannotMeet, _) | (_, When::UntilUpgrade | When::UnderSelinuxMount) => "note",
        (_, When::AfterUpgrade | When::Already) => "error",
    }
}

fn of_driver(driver: &Driver) -> Value {
    SarifResult {
        rule: "selinux-driver",
        level: "error",
        text: format!("CSI driver {}: {}. {}", driver.name, driver.cause, driver.hint),
        objects: vec![(&driver.daemon_set, driver.source.as_ref())],
        key: driver.name.clone(),
    }
    .result()
}

fn of_workload(workload: &Workload) -> impl Iterator<Item = Value> + '_ {
    let reasons = workload.user_namespace.reasons.iter().filter_map(|r| of_reason(workload, r));
    let findings = workload.selinux.findings.iter().map(|f| of_finding(workload, f));
    reasons.chain(findings)
}

fn of_reason(workload: &Workload, reason: &Reason) -> Option<Value> {
    let asks = workload.user_namespace.now == Now::Own;
    let (rule, level) = match reason.weight {
        Weight::Blocks if asks && workload.user_namespace.verdict == Verdict::Blocked => {
            ("user-namespace-blocked", "error")
        }
        Weight::Blocks => ("user-namespace-blocked", "warning"),
        Weight::Risks => ("user-namespace-risky", "note"),
        Weight::Note => return None,
    };
    let text = format!("{}: {}: {}. {}", named(&workload.object), reason.field, reason.cause, reason.hint);
    let found = SarifResult {
        rule,
        level,
        text,
        objects: vec![(&workload.object, workload.source.as_ref())],
        key: format!("{}|{}", named(&workload.object), reason.field),
    };
    Some(found.result())
}

fn of_finding(workload: &Workload, finding: &SelinuxFinding) -> Value {
    let (rule, level) = match (finding.what, finding.when) {
        (SelinuxRule::LabelledAndUnlabelled, _) => ("selinux-labelled-and-unlabelled", "warning"),
        (SelinuxRule::MultipleLabels, When::AfterUpgrade | When::Already) => {
            ("selinux-multiple-labels", "error")
        }
        (SelinuxRule::MultipleLabels, _) => ("selinux-multiple-labels", "note"),
        (SelinuxRule::WithoutLevel, _) => ("selinux-without-level", "note"),
        (SelinuxRule::PrivilegedWithOptions, _) => ("selinux-privileged-with-options", "note"),
    };
    SarifResult {
        rule,
        level,
        text: format!("{}: {}: {}. {}", named(&workload.object), finding.field, finding.cause, finding.hint),
        objects: vec![(&workload.object, workload.source.as_ref())],
        key: [&named(&workload.object), &finding.volume, &finding.field].map(String::as_str).join("|"),
    }
    .result()
}

/// The object by its name, and by its place in a file where it has one.
fn object_location(object: &ObjectRef, place: Option<&SourcePosition>) -> Value {
    let mut found = place.map_or_else(|| json!({}), location);
    let logical = json!([{"name": object.name, "fullyQualifiedName": named(object), "kind": "resource"}]);
    if let Value::Object(fields) = &mut found {
        fields.insert("logicalLocations".to_owned(), logical);
    }
    found
}

pub(super) fn location(place: &SourcePosition) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(&place.file)},
        "region": {"startLine": place.line.max(1), "startColumn": place.column.max(1)},
    }})
}

/// A file's name as a URI: relative to where the check was run, or absolute.
fn uri(file: &str) -> String {
    let file = if file == "-" { "stdin" } else { file.strip_prefix("./").unwrap_or(file) };
    let scheme = if file.starts_with('/') { "file://" } else { "" };
    let mut text = scheme.to_owned();
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_becomes_a_uri() {
        assert_eq!(uri("./apps/web shop.yaml"), "apps/web%20shop.yaml");
        assert_eq!(uri("/srv/dump.json"), "file:///srv/dump.json");
        assert_eq!(uri("-"), "stdin");
        assert_eq!(uri("a:b"), "a%3Ab");
    }
}
