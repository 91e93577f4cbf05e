//! Whether this node can give pods user namespaces: each need looked at, or tried for real.
//!
//! [`examine`] makes all checks and gives a [`Report`]: for each need what was found, and the cause and the fix where it
//! does not hold. The crate prints nothing; the crate `report` has the text. [`runtime_offers`] is what plans rest on.
//!
//! - `check`: one need, what was found, and the fault where there is one; `report`: all of them.
//! - By trial, on the running kernel: `trial`, `filesystems`. Nothing that is tried outlives the trial.
//! - From files under the host root: `limits`, `settings` (with `sysctl`), `ids` (with `neighbours`), `cgroups`, `selinux`,
//!   `gates`; from the mount table: `host_programs`.
//! - From the container runtime, and from the programs and files behind its answers: `runtime`; `wrapper`: how
//!   `wardlet-oci` is wired to it.

mod cgroups;
mod check;
mod crio;
mod filesystems;
mod gates;
mod host_programs;
mod ids;
mod limits;
mod neighbours;
mod report;
mod runtime;
mod selinux;
mod settings;
mod sysctl;
mod trial;
mod wrapper;

use census::HostRoot;
use cri::Endpoint;
use node::Node;
use node::facts::Assumptions;
use node::mounts::is_root;
use plan::SelinuxState;

pub use self::check::{Check, Evidence, Group, Severity, Verdict};
use self::filesystems::Places;
pub use self::report::{Overall, Report};
pub use self::runtime::offers::{RuntimeOffers, runtime_offers};
use self::runtime::{Runtime, Selinux};
use self::trial::Spared;

/// Makes all checks. The container runtime is the one at `endpoint`, else the first that listens at a usual address. What
/// takes root is open without it; trials are made on the running kernel, whatever the node's host root.
#[must_use]
pub fn examine(node: &Node, endpoint: Option<&Endpoint>) -> Report {
    let host_root = node.host_root();
    let pods = u64::from(node.max_pods().unwrap_or(ids::USUAL_PODS));
    let runtime = runtime::examine(host_root, endpoint, selinux_of(host_root));
    let mut checks = trials(node, &runtime);
    checks.extend(host_programs::checks(node));
    checks.extend(limits::checks(host_root, pods));
    checks.extend(ids::checks(node));
    checks.extend(cgroups::checks(host_root));
    checks.extend(settings::checks(host_root, pods));
    checks.extend(selinux::checks(host_root));
    checks.extend(wrapper::checks(node, &runtime.behind));
    checks.extend(runtime.checks);
    checks.extend(gates::checks(node));
    Report::new(checks)
}

fn selinux_of(host_root: &HostRoot) -> Selinux {
    let facts = node::facts::selinux::facts(host_root, &mut Assumptions::default());
    if facts.state == SelinuxState::Disabled { Selinux::Off } else { Selinux::On }
}

/// What takes root, or is open without.
fn trials(node: &Node, runtime: &Runtime) -> Vec<Check> {
    if !is_root() {
        return vec![
            trial::USERS.open("user namespaces can be made", trial::only_root()),
            trial::FILES.open("the filesystems in use can be idmapped", trial::only_root()),
        ];
    }
    let mut checks = trial::user_namespaces();
    if checks.iter().any(|check| !check.holds && check.severity == check::Severity::Needed) {
        // Every idmapped mount takes a user namespace: all would fail for that one reason.
        let fault = check::Fault::new("no user namespace can be made to try it with", "see above");
        checks.push(trial::FILES.open("the filesystems in use can be idmapped", fault));
    } else {
        checks.extend(filesystems::checks(&places(node, runtime)));
    }
    let spared = if runtime.spares_oom_score { Spared::ByRuntime } else { Spared::Not };
    checks.push(trial::oom_score(spared));
    checks.push(trial::guarded_addresses());
    checks
}

fn places(node: &Node, runtime: &Runtime) -> Places {
    let pods = node.kubelet_pods();
    Places {
        state_dir: node.state_dir().to_owned(),
        kubelet_dir: pods.parent().unwrap_or(&pods).to_owned(),
        runtime_root: runtime.root.clone(),
    }
}
