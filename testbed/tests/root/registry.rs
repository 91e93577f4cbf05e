//! The registry is a real one: containerd pulls from it with and without a name, and through faults.

use std::process::Output;

use testbed::cluster::addresses::{FAULT_PROXY, REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN};
use testbed::registry::faults::{Fault, Rule, requests, set};
use testbed::registry::{PASSWORD, USER};
use testbed::{Part, Parts, Testbed};

fn testbed() -> Testbed {
    Testbed::start(Parts::of(&[Part::Registry, Part::Containerd])).expect("a registry and containerd")
}

/// Where a pull goes. What one pull has left half done, another in the same namespace goes on with.
struct Pull<'a> {
    namespace: &'a str,
    address: &'a str,
    user: Option<&'a str>,
}

impl Pull<'_> {
    /// Pulls an image that only the registry has.
    fn run(&self, testbed: &Testbed) -> Output {
        let mut command = testbed.command("ctr");
        command.args(["--namespace", self.namespace, "images", "pull", "--plain-http"]);
        if let Some(user) = self.user {
            command.args(["--user", user]);
        }
        command.arg(format!("{}/registry-only:1", self.address)).output().expect("ctr")
    }

    /// Takes out again what it put into containerd.
    fn forget(&self, testbed: &Testbed) {
        let script = "ctr -n $0 images ls -q | xargs -r ctr -n $0 images rm --sync; \
                      ctr -n $0 content ls -q | xargs -r ctr -n $0 content rm";
        testbed.command("sh").args(["-c", script, self.namespace]).output().expect("ctr");
    }
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn containerd_pulls_without_a_name_with_a_name_and_with_a_token() {
    let testbed = testbed();
    let known = format!("{USER}:{PASSWORD}");
    let open = Pull { namespace: "open", address: REGISTRY, user: None };
    let anonymous = open.run(&testbed);
    assert!(anonymous.status.success(), "{}", words(&anonymous));
    open.forget(&testbed);
    for (namespace, address) in [("basic", REGISTRY_BASIC), ("token", REGISTRY_TOKEN)] {
        let by = |user| Pull { namespace, address, user };
        assert!(!by(None).run(&testbed).status.success(), "{address} lets everybody in");
        assert!(!by(Some("testbed:wrong")).run(&testbed).status.success(), "{address} takes any password");
        let right = by(Some(&known)).run(&testbed);
        assert!(right.status.success(), "{address}: {}", words(&right));
        by(None).forget(&testbed);
    }
}

/// Pulls through the proxy while every request for a blob meets the fault.
fn pull_through(testbed: &Testbed, namespace: &str, rule: Rule) -> Output {
    set(testbed.record(), &[rule]).expect("rules");
    let pull = Pull { namespace, address: FAULT_PROXY, user: None };
    let output = pull.run(testbed);
    if output.status.success() {
        pull.forget(testbed);
    }
    output
}

fn blobs(times: u32, fault: Fault) -> Rule {
    Rule { target: "/blobs/".into(), times, fault }
}

#[test]
fn a_faulty_registry_is_met_as_the_rules_say() {
    let testbed = testbed();
    let refused = Fault::Status { status: "401 Unauthorized".into(), challenge: None };
    let output = pull_through(&testbed, "refused", blobs(1000, refused));
    assert!(!output.status.success(), "{}", words(&output));
    let output = pull_through(&testbed, "corrupt", blobs(1000, Fault::Corrupt));
    assert!(!output.status.success() && words(&output).contains("digest"), "{}", words(&output));
    for slow in [Fault::Late { milliseconds: 300 }, Fault::Slow { milliseconds: 1 }] {
        let output = pull_through(&testbed, "slow", blobs(1000, slow));
        assert!(output.status.success(), "slow is not wrong: {}", words(&output));
    }
}

#[test]
fn the_rest_of_a_cut_download_is_asked_for_as_a_range() {
    let testbed = testbed();
    // Twice: the small configuration, which is whole after so many bytes, and the layer.
    let cut = pull_through(&testbed, "cut", blobs(2, Fault::Cut { after: 300_000 }));
    let whole =
        cut.status.success() || pull_through(&testbed, "cut", blobs(0, Fault::Corrupt)).status.success();
    assert!(whole, "{}", words(&cut));
    let asked = requests(testbed.record()).expect("the proxy's log").join("\n");
    assert!(asked.contains("bytes=300000-"), "{asked}");
}
