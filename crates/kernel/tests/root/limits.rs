//! Limits on user namespaces, made real in user namespaces that have limits of their own. Needs root.
//!
//! Each test starts itself again inside such a namespace: the limits are those of whoever asks.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use ids::IdMapping;
use kernel::probe::{self, Answer, Unsupported};
use kernel::{Charge, Error, IdMaps, UsernsFd};
use rustix::io::Errno;

const LIMIT: &str = "/proc/sys/user/max_user_namespaces";
const INSIDE: &str = "WARDLET_TEST_INSIDE";

/// Every ID of the lowest block is itself.
fn same_ids() -> IdMaps {
    let line = IdMapping::new(0, 0, 65_536).unwrap();
    IdMaps::new(&[line], &[line])
}

fn one_user(host: u64) -> IdMaps {
    let line = IdMapping::new(0, host, 1).unwrap();
    IdMaps::new(&[line], &[line])
}

/// How many user namespaces this test is inside of already.
fn depth() -> u32 {
    std::env::var(INSIDE).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs the test of this name again, in one more user namespace.
fn again_inside(name: &str) {
    let userns = UsernsFd::charged(&same_ids(), Charge::Caller).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
    let output = Command::new("nsenter")
        .args([&format!("--user={path}"), "--preserve-credentials", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("limits::{name}"), "--nocapture", "--test-threads=1"])
        .env(INSIDE, (depth() + 1).to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ran = output.status.success() && text.contains("1 passed");
    assert!(ran, "{text}{}", String::from_utf8_lossy(&output.stderr));
}

fn set_limit(limit: u32) {
    assert!(probe::Limits::read().nested, "this would change the limit of the host itself");
    fs::write(LIMIT, limit.to_string()).unwrap();
}

fn refusal(answer: Answer<probe::Limits>) -> Unsupported {
    match answer {
        Answer::Refused(refusal) => refusal,
        Answer::Works(limits) => panic!("works with {limits:?}"),
    }
}

#[test]
fn without_a_limit_in_the_way_they_can_be_made() {
    let Answer::Works(limits) = probe::user_namespaces() else { panic!("{:?}", probe::user_namespaces()) };
    assert_eq!(limits.per_user, fs::read_to_string(LIMIT).unwrap().trim().parse().ok());
    assert!(!limits.nested);
    assert!(probe::charged_user_namespaces().works());
}

#[test]
fn a_limit_of_zero_is_named_and_not_taken_for_a_full_disk() {
    if depth() == 0 {
        return again_inside("a_limit_of_zero_is_named_and_not_taken_for_a_full_disk");
    }
    set_limit(0);
    let refusal = refusal(probe::user_namespaces());
    assert_eq!(refusal.error, Error::StartChild { errno: Errno::NOSPC });
    assert!(refusal.cause.starts_with("user.max_user_namespaces is 0"), "{refusal:?}");
    assert!(refusal.fix.unwrap().contains("sysctl -w user.max_user_namespaces="));
}

#[test]
fn a_user_that_has_all_it_may_have_is_told_from_one_that_may_have_none() {
    if depth() == 0 {
        return again_inside("a_user_that_has_all_it_may_have_is_told_from_one_that_may_have_none");
    }
    set_limit(2);
    let _held = [1, 2].map(|_| UsernsFd::charged(&one_user(1000), Charge::Caller).unwrap());
    let refusal = refusal(probe::user_namespaces());
    assert!(refusal.cause.ends_with("as user.max_user_namespaces allows: 2"), "{refusal:?}");
    assert!(refusal.fix.unwrap().contains("lsns"));
}

#[test]
fn pods_do_not_use_up_the_limit_of_root_or_of_each_other() {
    if depth() == 0 {
        return again_inside("pods_do_not_use_up_the_limit_of_root_or_of_each_other");
    }
    set_limit(1);
    let pods: Vec<_> =
        (0..20).map(|pod| UsernsFd::charged(&one_user(1000 + pod), Charge::Pod).unwrap()).collect();
    assert!(probe::user_namespaces().works());
    // The same pod's second one is one too many.
    let error = UsernsFd::charged(&one_user(1000), Charge::Pod).unwrap_err();
    assert_eq!(error, Error::StartChild { errno: Errno::NOSPC });
    drop(pods);
}

#[test]
fn a_limit_of_a_namespace_around_us_is_told_from_our_own() {
    match depth() {
        0 => again_inside("a_limit_of_a_namespace_around_us_is_told_from_our_own"),
        1 => {
            // One for the namespace inside; none for those inside of that.
            set_limit(1);
            again_inside("a_limit_of_a_namespace_around_us_is_told_from_our_own");
        }
        _ => {
            let refusal = refusal(probe::user_namespaces());
            assert!(refusal.cause.contains("around this one"), "{refusal:?}");
            assert!(refusal.fix.unwrap().contains("outside of this container"));
        }
    }
}

#[test]
fn a_user_that_cannot_be_taken_on_is_an_error_and_not_passed_over() {
    if depth() == 0 {
        return again_inside("a_user_that_cannot_be_taken_on_is_an_error_and_not_passed_over");
    }
    // Not mapped in here, so nobody can be that user.
    let error = UsernsFd::charged(&one_user(70_000), Charge::Pod).unwrap_err();
    assert_eq!(error, Error::Charge { uid: 70_000, errno: Errno::INVAL });
    assert!(error.hint().is_some());
}
