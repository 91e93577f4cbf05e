//! SELinux on this node: its mode, and the labels that containers get by default.

use census::HostRoot;
use plan::{SelinuxFacts, SelinuxState};
use selinux::HostDefaults;

use super::Assumptions;

const ENFORCE: &str = "/sys/fs/selinux/enforce";
const CONTEXTS: &str = "/usr/share/containers/selinux/contexts";
const CONFIG: &str = "/etc/selinux/config";

/// What SELinux does on this node. A file of labels that is not understood becomes a note.
pub fn facts(host_root: &HostRoot, notes: &mut Assumptions) -> SelinuxFacts {
    let state = match read(host_root, ENFORCE) {
        None => return SelinuxFacts::default(),
        Some(text) if text.trim() == "1" => SelinuxState::Enforcing,
        Some(_) => SelinuxState::Permissive,
    };
    SelinuxFacts { state, defaults: defaults(host_root, notes) }
}

fn read(host_root: &HostRoot, path: &str) -> Option<String> {
    std::fs::read_to_string(host_root.path(path)).ok()
}

/// The first contexts file that is there holds, as for the container runtimes.
fn defaults(host_root: &HostRoot, notes: &mut Assumptions) -> Option<HostDefaults> {
    let of_policy = policy(host_root).map(|name| format!("/etc/selinux/{name}/contexts/lxc_contexts"));
    let candidates = [Some(CONTEXTS.to_owned()), of_policy];
    let mut found = candidates.into_iter().flatten().filter_map(|p| Some((read(host_root, &p)?, p)));
    let (text, path) = found.next()?;
    match text.parse() {
        Ok(defaults) => Some(defaults),
        Err(error) => {
            notes.add(format!("{path}: {error}: no label for volumes can be known"));
            None
        }
    }
}

/// The name of the policy that is loaded at boot.
fn policy(host_root: &HostRoot) -> Option<String> {
    let config = read(host_root, CONFIG)?;
    let name = config.lines().filter_map(|line| line.trim().strip_prefix("SELINUXTYPE=")).next_back()?;
    Some(name.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty() && !name.contains('/'))
}
