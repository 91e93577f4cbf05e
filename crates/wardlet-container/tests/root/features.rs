//! What engines say and what they do. Needs root and runc.

use crate::support;

use std::process::Command;

use serde_json::{Value, json};

fn features(engine: &str) -> Value {
    let done = Command::new(support::helper()).args(["features", engine]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Debian's runc says nothing of idmapped mounts, and libcontainer has none: with ours, both work.
#[test]
fn a_container_with_an_idmapped_volume_works_whatever_its_engine_says_of_it() {
    let found = features("/usr/sbin/runc");
    assert!(found["says"]["linux"]["namespaces"].as_array().unwrap().contains(&json!("user")), "{found}");
    assert_eq!(found["says"]["linux"]["mountExtensions"], Value::Null);
    let works = json!({ "works": true, "cause": null });
    assert_eq!(found["tried"]["userNamespaceWithIdmappedBind"], works, "{found}");
    let found = features("libcontainer");
    assert_eq!(found["tried"]["userNamespaceWithIdmappedBind"], works, "{found}");
}

#[test]
fn an_engine_that_is_none_says_nothing_and_does_not_work() {
    let found = features("/bin/false");
    assert!(found["says"].is_null() && found["saysNothing"].is_string(), "{found}");
    assert_eq!(found["tried"]["userNamespaceWithIdmappedBind"]["works"], json!(false));
    let done = Command::new(support::helper()).args(["features", "nothing"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
}

/// A server tries its engine each time that it starts, and may be killed each time.
#[test]
fn what_a_killed_trial_has_left_goes_with_the_next_one() {
    // Beyond the numbers that processes have.
    let left = std::path::Path::new("/run/wardlet-trial-4194999");
    std::fs::create_dir_all(left.join("upper/deep")).unwrap();
    features("libcontainer");
    assert!(!left.exists());
}
