//! What programs rely on.

use crate::support;

use std::process::Stdio;

use serde_json::json;
use support::Host;

#[test]
fn a_lease_in_json_keeps_its_contract() {
    let host = Host::new();
    let block = json!([{"hostId": 65536, "containerId": 0, "length": 65536}]);
    let mut lease = host.json("ids lease web --place /srv/web");
    lease["since"] = json!("TIME");
    let expected = json!({
        "holder": "web", "state": "leased", "uidMappings": block, "gidMappings": block,
        "since": "TIME", "restsUntil": null, "members": null, "tenure": "durable",
        "places": ["/srv/web"], "categories": null, "note": null,
    });
    assert_eq!(lease, expected);
    let mut list = host.json("ids list");
    list[0]["since"] = json!("TIME");
    assert_eq!(list, json!([expected]));
}

#[test]
fn the_first_fields_of_a_lease_come_first() {
    let ran = Host::new().run("ids lease web -o json");
    let order: Vec<_> =
        ["\"holder\"", "\"state\"", "\"uidMappings\"", "\"hostId\"", "\"containerId\"", "\"length\""]
            .iter()
            .map(|field| ran.stdout.find(field).unwrap())
            .collect();
    assert!(order.is_sorted(), "{}", ran.stdout);
}

#[test]
fn yaml_says_what_json_says() {
    let host = Host::new();
    host.done("ids lease web");
    host.done("ids lease j --shared batch --categories");
    for command in ["ids list", "ids audit", "ids owner 65536", "ids gc", "config", "ids lease web"] {
        let yaml = host.run(&format!("{command} -o yaml"));
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
        assert_eq!(yaml, host.json(command), "{command}");
    }
}

#[test]
fn a_release_says_in_json_what_became_of_the_block() {
    let host = Host::new();
    host.write("srv/web/file", "");
    host.done("ids lease web --place /srv/web");
    let block = json!({"hostId": 65536, "length": 65536});
    assert_eq!(
        host.json("ids release web"),
        json!({"holder": "web", "uids": block, "gids": block, "outcome": "draining", "until": null,
               "keptBy": ["/srv/web still exists"]})
    );
    assert_eq!(host.json("ids release db"), json!({"holder": "db", "outcome": "nothingHeld"}));
}

#[test]
fn an_owner_in_json_tells_users_from_groups() {
    let host = Host::new();
    host.done("ids lease web");
    let lease =
        json!([{"name": "lease of web", "hold": "leased", "ids": {"hostId": 65536, "length": 65536}}]);
    assert_eq!(host.json("ids owner 65536"), json!({"id": 65536, "uid": lease, "gid": lease}));
    assert_eq!(host.json("ids owner 655360"), json!({"id": 655_360, "uid": [], "gid": []}));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let host = Host::new();
    host.done("ids lease web");
    for words in ["ids list", "ids list -o json", "config", "ids audit"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = host.command(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words}");
        assert_eq!(output.status.code(), Some(0), "{words}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = host.command("ids translate nobody --uid 1").stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_names_the_exit_codes() {
    for words in ["--help", "ids --help"] {
        let ran = Host::new().run(words);
        assert!(ran.stdout.contains("Exit codes:\n  0  done, or the check passed\n"), "{}", ran.stdout);
    }
}

#[test]
fn every_line_of_a_log_in_json_is_an_object() {
    let ran = Host::new().run("cri --engine HOST/none --log-format json");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let lines: Vec<serde_json::Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{ran:?}");
    assert_eq!(lines[0]["level"], "ERROR", "{ran:?}");
    assert!(lines[0]["message"].is_string() && lines[0]["fields"]["hint"].is_string(), "{ran:?}");
    let text = Host::new().run("cri --engine HOST/none");
    let message = lines[0]["message"].as_str().unwrap();
    let hint = lines[0]["fields"]["hint"].as_str().unwrap();
    assert_eq!(text.stderr, format!("error: {message}\n\nhint: {hint}\n"));
}
