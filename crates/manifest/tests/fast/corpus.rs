//! Every manifest of the corpus gets its verdict, for the right field.

use crate::support;

use manifest::{Problem, Schema, read, validate};
use plan::Gates;
use support::{Case, Verdict, corpus, doc_for, found, pod_fields};

/// What is wrong with a text, from reading it or from checking what was read.
fn faults(text: &str) -> Vec<manifest::Finding> {
    let reading = read("m.yaml", text.as_bytes());
    let checked = reading.objects.iter().flat_map(|object| validate(object, &Gates::default()));
    let checked: Vec<_> = checked.collect();
    reading.findings.into_iter().chain(checked).collect()
}

#[test]
fn every_manifest_of_the_corpus_gets_its_verdict() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{}", corpus.len());
    all_get_their_verdicts(&corpus);
}

#[test]
fn what_has_no_fields_takes_none() {
    let job = |mode: &str| {
        faults(&format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec:\n  scheduling: {{disruptionMode: {mode}}}\n  \
             template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}\n"
        ))
    };
    assert!(job("{all: {}}").is_empty());
    for mode in ["{all: 5}", "{all: {a: b}}"] {
        assert!(job(mode)[0].path.starts_with("spec.scheduling.disruptionMode.all"), "{mode}");
    }
}

#[test]
fn a_stored_object_is_taken_with_what_a_server_adds_to_it() {
    let pod = |version: &str| {
        let meta = format!("{{name: a, resourceVersion: {version}}}");
        let spec = "{containers: [{name: c, image: i}], ephemeralContainers: [{name: e, image: i}]}";
        faults(&format!("apiVersion: v1\nkind: Pod\nmetadata: {meta}\nspec: {spec}\n")).len()
    };
    assert_eq!((pod("''"), pod("'7'")), (1, 0));
    let job = |version: &str| {
        let meta = format!("{{name: a, resourceVersion: {version}}}");
        let labels = "{controller-uid: u, job-name: a}";
        faults(&format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {meta}\nspec:\n  selector: {{matchLabels: {{controller-uid: u}}}}\n  \
             template: {{metadata: {{labels: {labels}}}, spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}\n"
        ))
    };
    assert!(!job("''").is_empty() && job("'7'").is_empty());
}

#[test]
fn every_difference_that_was_found_is_gone() {
    all_get_their_verdicts(&found());
}

fn all_get_their_verdicts(corpus: &[Case]) {
    let mut names = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for case in corpus {
        assert!(names.insert(&case.name), "two are named {}", case.name);
        let found = faults(&case.text);
        let holds = match case.verdict {
            Verdict::Accepted => found.is_empty(),
            Verdict::Refused => found.iter().any(|f| f.path.contains(&case.field)),
        };
        if !holds {
            let said: Vec<String> = found.iter().map(ToString::to_string).collect();
            wrong.push(format!("{:?} {}: {said:?}", case.verdict, case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), corpus.len(), wrong.join("\n"));
}

#[test]
fn a_finding_has_the_line_of_its_field() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    image: i\n    ports:\n    - containerPort: 99999\n    volumeMounts:\n    - name: nope\n      mountPath: /x\n";
    let lines: Vec<(u32, String)> = faults(text).into_iter().map(|f| (f.at.line, f.path)).collect();
    assert_eq!(
        lines,
        [
            (10, "spec.containers[0].ports[0].containerPort".to_owned()),
            (12, "spec.containers[0].volumeMounts[0].name".to_owned()),
        ]
    );
}

#[test]
fn a_typo_at_any_field_of_a_pod_is_found_with_line_path_and_suggestion() {
    let fields = pod_fields();
    assert!(fields.len() > 800, "{}", fields.len());
    for (path, _) in fields {
        let name = path.rsplit('.').next().unwrap();
        let wrong = format!("{name}x");
        let (text, line) = doc_for(&path, &wrong, "true");
        let reading = read("pod.yaml", text.as_bytes());
        assert!(reading.objects.is_empty(), "{path}");
        let found = &reading.findings[0];
        assert_eq!(usize::try_from(found.at.line).unwrap(), line, "{path}");
        assert!(found.path.ends_with(&format!(".{wrong}")) || found.path == wrong, "{path}: {}", found.path);
        let hint = found.hint().unwrap_or_else(|| panic!("{path}: no suggestion"));
        assert!(hint.contains(name), "{path}: {hint}");
    }
}

/// Fields of one type put where another type is: refused, and the right place is named.
fn misplaced(from: &str, to: &str) -> usize {
    let schema = Schema::of::<manifest::k8s_openapi::api::core::v1::Pod>().unwrap();
    let names = |parent: &str| -> Vec<String> {
        let below = schema.fields().iter().filter_map(|f| f.path.strip_prefix(&format!("{parent}.")));
        below.filter(|rest| !rest.contains(['.', '['])).map(str::to_owned).collect()
    };
    let (there, here) = (names(from), names(to));
    let strays: Vec<&String> = there.iter().filter(|name| !here.contains(name)).collect();
    for name in &strays {
        let (text, line) = doc_for(&format!("{to}.{name}"), name, "null");
        let found = &read("pod.yaml", text.as_bytes()).findings;
        assert_eq!(found.len(), 1, "{name} in {to}");
        assert_eq!(usize::try_from(found[0].at.line).unwrap(), line);
        assert!(matches!(found[0].problem, Problem::UnknownField { .. }), "{name} in {to}");
        let hint = found[0].hint().unwrap();
        let is_case_slip = hint.starts_with("did you mean");
        assert!(
            hint.contains(&format!("{from}.{name}")) || is_case_slip || hint.contains(name.as_str()),
            "{hint}"
        );
    }
    strays.len()
}

#[test]
fn a_field_at_another_place_of_the_pod_is_found_with_the_right_one() {
    let places = [
        "spec",
        "spec.containers[]",
        "spec.securityContext",
        "spec.containers[].securityContext",
        "spec.containers[].volumeMounts[]",
        "spec.volumes[]",
    ];
    let pairs = places.iter().flat_map(|from| places.iter().map(move |to| (from, to)));
    let strays: usize = pairs.filter(|(from, to)| from != to).map(|(from, to)| misplaced(from, to)).sum();
    assert!(strays > 300, "{strays}");
}
