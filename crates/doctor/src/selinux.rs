//! SELinux: whether it is on, and whether labels for volumes can be known.

use census::HostRoot;
use node::facts::Assumptions;
use node::facts::selinux;
use plan::SelinuxState;

use crate::check::{Check, Desk, Evidence, Fault, Group};

const DESK: Desk = Desk::new(Group::Selinux, Evidence::Files);

pub(crate) fn checks(host_root: &HostRoot) -> Vec<Check> {
    let mut notes = Assumptions::default();
    let facts = selinux::facts(host_root, &mut notes);
    let state = match facts.state {
        SelinuxState::Disabled => return vec![DESK.shows("SELinux", "off: volumes need no labels")],
        SelinuxState::Permissive => "permissive",
        SelinuxState::Enforcing => "enforcing",
    };
    let need = "the labels of containers and volumes are known";
    let contexts = match facts.defaults {
        Some(_) => DESK.holds(need, "from the host's contexts file"),
        None => {
            let said = notes.for_intents(&[]).join("; ");
            let cause = if said.is_empty() { "there is no contexts file".to_owned() } else { said };
            let fix = "dnf install container-selinux (or: apt-get install selinux-policy-default)";
            DESK.fails(need, "unknown", Fault::new(cause, fix))
        }
    };
    vec![DESK.shows("SELinux", state), contexts]
}
