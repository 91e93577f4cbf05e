//! A container that shares its PID namespace stops (SIGSTOP) the process that starts a container beside it. That was still in
//! the host's network then: `/proc/PID/net` showed the host's devices, connections and sockets, which no ptrace check guards.

use std::fs;

use container::Console;

use super::variants::{Processes, Variant};
use crate::support::Users;

/// The engine joins no network: whatever it makes is in the pod's from its first moment.
#[test]
fn a_process_is_in_the_pods_network_before_it_is_among_the_pods_processes() {
    let wanted = |one: &Variant| one.processes == Processes::Shared && one.console == Console::Pipes;
    for variant in Variant::built_in().into_iter().filter(wanted) {
        let mut attacker = variant.container(&["/bin/true"]);
        let log = attacker.container.path("calls");
        let options = ["-f", "-e", "trace=setns", "-o", log.to_str().unwrap()];
        attacker.container.run_traced(&options);
        let calls = fs::read_to_string(&log).unwrap();
        assert!(!calls.contains("CLONE_NEWNET"), "{variant:?}: {calls}");
        let own = calls.lines().filter(|call| call.contains(", 0)")).count();
        assert!(own >= 3 || variant.users == Users::Host, "{variant:?}: {calls}");
    }
}
