//! The report as SARIF, JUnit and HTML, through the binary.

use crate::support;

use std::fmt::Write;
use std::path::Path;

use base64::Engine;
use serde_json::{Value, json};
use support::{Host, Ran};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/check").join(name);
    path.display().to_string()
}

fn checked(name: &str, options: &str) -> Ran {
    Host::new().run(&format!("check {} --from 1.36 --to 1.37 {options}", fixture(name)))
}

fn sarif(name: &str) -> Value {
    serde_json::from_str(&checked(name, "-o sarif").stdout).unwrap()
}

fn strings<'a>(value: &'a Value, path: &[&str]) -> Vec<&'a str> {
    let items = value.as_array().unwrap().iter();
    items.map(|item| path.iter().fold(item, |at, name| &at[name]).as_str().unwrap()).collect()
}

/// What the schema of SARIF 2.1.0 requires of the objects that we write.
#[test]
fn a_sarif_log_has_what_the_schema_requires() {
    let log = sarif("shop.yaml");
    assert_eq!(log["version"], "2.1.0");
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "wardlet");
    let rules = strings(&driver["rules"], &["id"]);
    assert!(runs[0]["invocations"][0]["executionSuccessful"].is_boolean());
    let results = runs[0]["results"].as_array().unwrap();
    assert!(results.len() > 5);
    for result in results {
        assert!(!result["message"]["text"].as_str().unwrap().is_empty(), "{result}");
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index], result["ruleId"].as_str().unwrap());
        for location in result["locations"].as_array().unwrap() {
            let place = &location["physicalLocation"];
            assert!(place["artifactLocation"]["uri"].as_str().unwrap().starts_with("file:///"), "{place}");
            assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
            assert!(place["region"]["startColumn"].as_u64().unwrap() >= 1);
        }
    }
}

#[test]
fn a_conflict_in_sarif_leads_to_both_workloads() {
    let log = sarif("shop.yaml");
    let results = log["runs"][0]["results"].as_array().unwrap();
    let text = std::fs::read_to_string(fixture("shop.yaml")).unwrap();
    let conflict = results
        .iter()
        .find(|r| {
            r["ruleId"] == "selinux-conflict" && r["message"]["text"].as_str().unwrap().contains("storefront")
        })
        .unwrap();
    assert_eq!(conflict["level"], "error");
    let lines: Vec<String> = conflict["locations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|location| {
            let line = location["physicalLocation"]["region"]["startLine"].as_u64().unwrap();
            let from = text.lines().skip(usize::try_from(line).unwrap() - 1);
            from.take(3).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert!(lines[0].contains("name: storefront"), "{lines:?}");
    assert!(lines[1].contains("name: thumbnailer"), "{lines:?}");
}

#[test]
fn a_result_keeps_its_fingerprint_when_the_file_changes_elsewhere() {
    let host = Host::new();
    let text = std::fs::read_to_string(fixture("shop.yaml")).unwrap();
    let prints = |text: &str| {
        host.write("m.yaml", text);
        let log: Value = serde_json::from_str(&host.run("check HOST/m.yaml -o sarif").stdout).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        results.iter().map(|r| r["partialFingerprints"].to_string()).collect::<Vec<_>>()
    };
    let before = prints(&text);
    assert_eq!(before, prints(&format!("# a line more\n{text}")));
    let distinct: std::collections::BTreeSet<_> = before.iter().collect();
    assert_eq!(distinct.len(), before.len());
}

/// The elements of an XML text in order, if it is well-formed: enough of XML for what we write.
fn elements(xml: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("unclosed: {piece}"));
        assert!(!text.contains('&') || text.split('&').skip(1).all(|e| e.contains(';')), "{text}");
        if tag.starts_with('?') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None => {
                let name = tag.split([' ', '/']).next().unwrap().to_owned();
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                seen.push(tag.to_owned());
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    seen
}

fn count(elements: &[String], name: &str) -> usize {
    elements.iter().filter(|e| e.split([' ', '/']).next() == Some(name)).count()
}

#[test]
fn junit_is_well_formed_and_counts_right() {
    for name in ["shop.yaml", "hostile.yaml"] {
        let xml = checked(name, "-o junit").stdout;
        let elements = elements(&xml);
        let number = |attribute: &str| -> usize {
            let start = elements[0].split(&format!("{attribute}=\"")).nth(1).unwrap();
            start.split('"').next().unwrap().parse().unwrap()
        };
        assert_eq!(number("tests"), count(&elements, "testcase"));
        assert_eq!(number("failures"), count(&elements, "failure"));
        assert_eq!(number("errors"), count(&elements, "error"));
    }
}

#[test]
fn junit_fails_for_exactly_those_that_the_upgrade_breaks() {
    let report: Value = serde_json::from_str(&checked("shop.yaml", "-o json").stdout).unwrap();
    let broken =
        report["breaks"].as_array().unwrap().iter().flat_map(|b| strings(&b["workloads"], &["name"]));
    let broken: std::collections::BTreeSet<String> = broken.map(str::to_owned).collect();
    let xml = checked("shop.yaml", "-o junit").stdout;
    let failed = xml.split("<testcase").filter(|case| case.contains("<failure"));
    let failed =
        failed.map(|case| case.split(" name=\"").nth(1).unwrap().split('"').next().unwrap().to_owned());
    assert_eq!(failed.collect::<std::collections::BTreeSet<_>>(), broken);
    assert_eq!(broken.len(), 5);
    assert_eq!(checked("shop.yaml", "-o junit --gate").code, Some(1));
}

#[test]
fn what_was_not_understood_is_in_every_output() {
    for (format, words) in
        [("sarif", "toolExecutionNotifications"), ("junit", "<error "), ("html", "could not be read")]
    {
        let out = checked("hostile.yaml", &format!("-o {format}")).stdout;
        assert!(out.contains(words), "{format}: {out}");
    }
    let log = sarif("hostile.yaml");
    assert_eq!(log["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().unwrap().len(), 1);
}

#[test]
fn hostile_text_stays_text_in_html_and_junit() {
    let page = checked("hostile.yaml", "-o html").stdout;
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img"));
    assert!(page.contains("&lt;img src=x onerror=window.hit=1&gt;"));
    let xml = checked("hostile.yaml", "-o junit").stdout;
    assert!(!xml.contains("<script") && xml.contains("&lt;script&gt;"));
}

#[test]
fn the_page_needs_nothing_but_itself_and_allows_nothing_else() {
    let page = checked("shop.yaml", "-o html").stdout;
    for outside in ["http://", "https://", " src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let script = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
    let hash = base64::engine::general_purpose::STANDARD.encode(hash);
    assert!(page.contains(&format!("script-src &#39;sha256-{hash}&#39;")), "the policy names our script");
    assert!(page.contains("default-src &#39;none&#39;"));
    // The policy leaves out styles and handlers of elements' own: there must be none.
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
}

#[test]
fn a_volume_of_many_users_stays_a_small_picture() {
    let host = Host::new();
    let mut text = std::fs::read_to_string(fixture("hostile.yaml")).unwrap();
    for n in 0..80 {
        write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{n}, namespace: shop}}\nspec:\n  securityContext: {{seLinuxOptions: {{level: \"s0:c{},c9\"}}}}\n  containers: [{{name: c, image: i, volumeMounts: [{{name: v, mountPath: /v}}]}}]\n  volumes: [{{name: v, persistentVolumeClaim: {{claimName: evil}}}}]\n",
            n % 4
        )
        .unwrap();
    }
    host.write("many.yaml", &text);
    let page = host.run("check HOST/many.yaml -o html").stdout;
    assert_eq!(page.matches("class=\"volume\"").count(), 1);
    // Four levels of many pods each, and the two that one pod each has.
    assert_eq!(page.matches("class=\"user\"").count(), 6);
    assert!(page.contains("20 workloads"));
}

#[test]
fn other_answers_have_no_such_forms() {
    for format in ["sarif", "junit", "html"] {
        let ran = Host::new().run(&format!("config -o {format}"));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("only `wardlet check` has this format"), "{ran:?}");
    }
}

#[test]
fn an_empty_list_of_results_is_still_a_whole_answer() {
    let host = Host::new();
    host.write(
        "one.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n",
    );
    let log: Value = serde_json::from_str(&host.run("check HOST/one.yaml -o sarif").stdout).unwrap();
    assert_eq!(log["runs"][0]["results"], json!([]));
    elements(&host.run("check HOST/one.yaml -o junit").stdout);
    assert!(host.run("check HOST/one.yaml -o html").stdout.contains("The upgrade breaks nothing"));
}

#[test]
fn a_blocked_workload_that_asks_is_not_counted_as_isolated_already() {
    let host = Host::new();
    let pod = |name: &str, more: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{hostUsers: false, {more} \
             containers: [{{name: c, image: i}}]}}}}\n"
        )
    };
    host.write("two.yaml", &[pod("good", ""), pod("stuck", "hostPID: true,")].concat());
    let report = host.json("check HOST/two.yaml");
    assert_eq!((&report["summary"]["isolated"], &report["summary"]["blocked"]), (&json!(1), &json!(1)));
    let page = host.run("check HOST/two.yaml -o html").stdout;
    let tile = |count: u32, what: &str| format!("<strong>{count}</strong><span>{what}</span>");
    for shown in [tile(1, "isolated already"), tile(1, "blocked")] {
        assert!(page.contains(&shown), "{shown} is not in {page}");
    }
    assert_eq!(page.matches("asks for a user namespace of its own").count(), 1);
    assert_eq!(page.matches(" own user namespace").count(), 1);
}
