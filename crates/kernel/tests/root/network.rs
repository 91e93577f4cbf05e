//! Another network for one thread. Needs root.

use std::fs;

use kernel::{Error, Namespace, NamespaceKind, NetworkVisit, namespace};
use rustix::io::Errno;

const PORTS: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

fn made(kind: NamespaceKind) -> Namespace {
    namespace::make(None, &[kind], None).unwrap().remove(0)
}

fn here() -> std::path::PathBuf {
    fs::read_link("/proc/thread-self/ns/net").unwrap()
}

#[test]
fn a_thread_sees_and_sets_the_network_that_it_visits_and_comes_back() {
    let (network, home, ports) = (made(NamespaceKind::Net), here(), fs::read_to_string(PORTS).unwrap());
    for _ in 0..2 {
        let visit = NetworkVisit::to(&network).unwrap();
        assert_ne!(here(), home);
        assert_eq!(std::thread::scope(|scope| scope.spawn(here).join().unwrap()), here());
        fs::write(PORTS, "77").unwrap();
        assert_eq!(fs::read_to_string(PORTS).unwrap().trim(), "77");
        visit.leave().unwrap();
        assert_eq!((here(), fs::read_to_string(PORTS).unwrap()), (home.clone(), ports.clone()));
    }
    drop(NetworkVisit::to(&network).unwrap());
    assert_eq!(here(), home);
}

#[test]
fn a_namespace_of_another_kind_is_not_visited() {
    let error = NetworkVisit::to(&made(NamespaceKind::Uts)).unwrap_err();
    assert!(matches!(error, Error::NetworkVisit { errno: Errno::INVAL, .. }), "{error}");
}
