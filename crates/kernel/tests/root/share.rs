//! What tasks share. Needs root.

use std::fs;
use std::process::Command;

/// The kernel's threads have no memory, and so the same; what the kernel tells is asked, not guessed.
#[test]
fn threads_of_the_kernel_share_that_they_have_no_memory_and_programs_have_their_own() {
    let made = fs::read_to_string("/proc/2/task/2/children").unwrap();
    let threads: Vec<u32> = made.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let one = *threads.first().unwrap();
    assert!(kernel::share_memory(2, one) && kernel::share_memory(one, 2));
    let own = std::process::id();
    assert!(!kernel::share_memory(2, own) && !kernel::share_memory(own, 1));
    let mut ended = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", ended.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    assert!(kernel::share_memory(2, ended.id()), "what has ended has none either");
    ended.wait().unwrap();
}
