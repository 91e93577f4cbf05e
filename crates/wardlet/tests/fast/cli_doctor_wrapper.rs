//! `wardlet doctor` on nodes whose CRI-O calls `wardlet-oci`: the wiring is in files, and each gap has its fix.

use crate::support;

use serde_json::Value;
use support::Host;

const WIRING: &str = "etc/crio/crio.conf.d/10-ward.conf";
const RUNTIME: &str = "[crio.runtime.runtimes.ward]\nruntime_path = \"/usr/local/bin/wardlet-oci\"\n";

fn open_gate(host: &Host) {
    let state = host.state();
    host.config(&format!(
        "wrapper: {{enable_user_namespace_annotation: true, runtime: /usr/bin/crun, \
         user_namespace_state_dir: {}}}\n",
        state.display()
    ));
}

/// The checks of the wrapper: what is needed, and whether it holds.
fn wiring(host: &Host) -> Vec<Value> {
    let all = host.json("doctor")["checks"].as_array().unwrap().clone();
    all.into_iter().filter(|check| check["group"] == "wrapper").collect()
}

#[track_caller]
fn check(checks: &[Value], need: &str) -> Value {
    let found = checks.iter().find(|check| check["need"].as_str().unwrap().starts_with(need));
    found.unwrap_or_else(|| panic!("nothing about {need:?} in {checks:#?}")).clone()
}

#[test]
fn a_node_where_nobody_calls_the_wrapper_hears_of_it_only_if_its_gate_is_open() {
    let host = Host::with_subids("kubelet:65536:7208960\n", "kubelet:65536:7208960\n");
    assert_eq!(wiring(&host), Vec::<Value>::new());
    open_gate(&host);
    let idle = wiring(&host);
    assert_eq!(idle.len(), 1, "{idle:#?}");
    assert!(idle[0]["fix"].as_str().unwrap().contains("runtime_path"), "{idle:#?}");
}

#[test]
fn cri_os_wiring_is_found_and_each_gap_in_it_is_named() {
    let host = Host::with_subids("kubelet:65536:7208960\n", "kubelet:65536:7208960\n");
    host.write(WIRING, RUNTIME);
    let found = wiring(&host);
    assert_eq!(check(&found, "CRI-O calls wardlet-oci")["holds"], true);
    let dropped = check(&found, "CRI-O makes a first container");
    assert!(dropped["fix"].as_str().unwrap().contains("drop_infra_ctr = false"), "{dropped}");
    let closed = check(&found, "the operator's gate is open");
    assert_eq!((closed["found"].as_str(), closed["severity"].as_str()), (Some("closed"), Some("useful")));
    let elsewhere = check(&found, "leases of wardlet-oci are in the ledger");
    assert_eq!(elsewhere["found"], "elsewhere");
    assert!(elsewhere["fix"].as_str().unwrap().contains("user_namespace_state_dir"), "{elsewhere}");

    host.write(WIRING, &format!("[crio.runtime]\ndrop_infra_ctr = false\n{RUNTIME}"));
    open_gate(&host);
    let absent = check(&wiring(&host), "/usr/local/bin/wardlet-oci finds the runtime");
    assert_eq!(absent["cause"], "/usr/bin/crun is not there");
    host.write("usr/bin/crun", "");
    for check in wiring(&host) {
        assert_eq!(check["holds"], true, "{check:#}");
    }
}
