//! Suites of ours inside a guest.

use std::time::{Duration, Instant};

use vm::{Exec, Vm};

/// Runs a suite of ours, in which something is tested and all of it holds.
pub(crate) fn suite(vm: &Vm, name: &str, run: Exec) {
    let began = Instant::now();
    // Not in /tmp, which is on a tmpfs here: the oldest of these kernels cannot idmap one.
    let run = run.env("TMPDIR", "/var/tmp").env("WARDLET_ROUNDS", "1").limit(Duration::from_secs(300));
    let tests = vm.run(&run).unwrap();
    let text = tests.text();
    let ok =
        tests.success() && text.contains("test result: ok") && !text.contains("test result: ok. 0 passed");
    assert!(ok, "{name}: {text}{}", tests.words());
    println!("{name} inside in {:.1} s", began.elapsed().as_secs_f64());
    text.lines().filter(|line| line.starts_with("Linux")).for_each(|line| println!("  {line}"));
}
