//! The facts about SELinux and mounts that wardlet relies on, each tried on both kernels and in both
//! modes, and the machine that they are tried on. One boot per kernel serves all of them: the first test
//! that asks boots, tries everything and notes what it found; the tests read the notes.

mod machine;
mod suite;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vm::{Error, Exec, Mode, Options, Payload, Series, Vm};

/// Makes a test of each name on each kernel.
macro_rules! on_each_kernel {
    (facts { $($fact:ident)* } machine { $($whole:ident)* }) => {
        /// What the probe tries in the guest.
        const FACTS: &[&str] = &[$(stringify!($fact)),*];
        /// What is tried from here, with the guest as a whole.
        const MACHINE: &[(&str, fn(&vm::Vm))] = &[
            $((stringify!($whole), machine::$whole),)*
        ];
        mod on_6_1 {
            $(#[test] fn $fact() { super::holds(vm::Series::V6_1, stringify!($fact)); })*
            $(#[test] fn $whole() { super::holds(vm::Series::V6_1, stringify!($whole)); })*
        }
        mod on_6_12 {
            $(#[test] fn $fact() { super::holds(vm::Series::V6_12, stringify!($fact)); })*
            $(#[test] fn $whole() { super::holds(vm::Series::V6_12, stringify!($whole)); })*
        }
    };
}

on_each_kernel! {
    facts {
        a_context_is_quoted_for_mount_and_bare_for_fsconfig
        mountinfo_shows_the_context_or_seclabel_never_both
        one_superblock_has_one_context
        binds_and_remounts_keep_the_context_they_found
        a_context_is_never_written_to_disk
        every_tmpfs_has_a_context_of_its_own
        overlays_over_one_lower_layer_have_contexts_of_their_own
        an_overlay_takes_no_detached_layers
        an_idmapped_clone_keeps_the_context
        a_process_takes_the_label_written_before_exec
        categories_keep_processes_from_the_mounts_of_others
        labels_are_written_by_who_may_relabel_and_only_known_ones
    }
    machine {
        outputs_and_status_come_back
        files_go_in_and_out
        an_overrun_command_is_killed_and_the_guest_lives_on
        the_guest_is_a_pure_cgroup_v2_host
        modules_are_loaded_by_name
        var_is_a_disk_that_keeps_labels
        our_own_tests_run_inside
        nfs_is_refused_by_name
        the_whole_of_wardlet_runs_inside
    }
}

/// What one boot brought to light.
struct Findings {
    /// By name: what was found instead, where something does not hold.
    notes: BTreeMap<String, Result<(), String>>,
    /// The facts that the probe itself names.
    listed: Vec<String>,
    /// How the last command, which takes the guest down, came back.
    end: Error,
}

static ON_6_1: LazyLock<Findings> = LazyLock::new(|| examine(Series::V6_1, panic_on_purpose));
static ON_6_12: LazyLock<Findings> = LazyLock::new(|| examine(Series::V6_12, hang_on_purpose));

fn findings(series: Series) -> &'static Findings {
    match series {
        Series::V6_1 => &ON_6_1,
        Series::V6_12 => &ON_6_12,
    }
}

fn holds(series: Series, name: &str) {
    if let Err(found) = &findings(series).notes[name] {
        panic!("kernel {series}: {found}");
    }
}

/// Boots, tries everything, ends. One guest at a time: together they would only be slower.
fn examine(series: Series, end: fn(&Vm) -> Error) -> Findings {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let vm = boot(series);
    let listed = vm.exec(&["vm-probe", "list"]).unwrap().text().lines().map(str::to_owned).collect();
    let began = Instant::now();
    let mut notes: BTreeMap<String, Result<(), String>> =
        FACTS.iter().map(|fact| ((*fact).to_owned(), try_fact(&vm, fact))).collect();
    println!("kernel {series}: {} facts in {:.1} s", FACTS.len(), began.elapsed().as_secs_f64());
    for (name, check) in MACHINE {
        let caught = catch_unwind(AssertUnwindSafe(|| check(&vm)));
        notes.insert((*name).to_owned(), caught.map_err(|panic| words(panic.as_ref())));
    }
    Findings { notes, listed, end: end(&vm) }
}

fn boot(series: Series) -> Vm {
    vm::ensure(series).unwrap();
    let payloads = vec![
        Payload::new(&vm::static_binary("vm", "vm-probe").unwrap(), "/bin/vm-probe"),
        Payload::of_ours("wardlet", "/bin/wardlet"),
        Payload::new(Path::new("/usr/bin/env"), "/opt/dynamic-env"),
        Payload::new(&vm::static_test("kernel", "root").unwrap(), machine::KERNEL_TESTS),
    ];
    let programs = machine::MAKERS_OF_FILESYSTEMS.map(|(from, to)| Payload::new(Path::new(from), to));
    let payloads = payloads.into_iter().chain(programs).collect();
    let vm = Vm::boot(&Options { payloads, ..Options::new(series) }).unwrap();
    println!("kernel {} booted in {:.1} s", vm.hello().release, vm.boot_time().as_secs_f64());
    assert!(vm.hello().release.starts_with(&format!("{series}.")), "{}", vm.hello().release);
    vm
}

fn try_fact(vm: &Vm, fact: &str) -> Result<(), String> {
    for mode in Mode::ALL {
        vm.set_mode(mode).unwrap();
        let output = vm.exec(&["vm-probe", fact]).map_err(|error| error.to_string())?;
        if !output.success() {
            return Err(format!("{mode}: {}{}", output.text(), output.words()));
        }
    }
    Ok(())
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

fn panic_on_purpose(vm: &Vm) -> Error {
    vm.exec(&["sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger"]).unwrap_err()
}

/// The agent is stopped, so nothing in the guest answers or reads any more. The command stays: the thread of the agent
/// that the signal is for may be the last to run, and until then another one would report the end of the command.
fn hang_on_purpose(vm: &Vm) -> Error {
    let stop = Exec::new(&["sh", "-c", "kill -STOP $PPID; exec sleep 1000"]).input(vec![0; 8 << 20]);
    vm.run(&stop.limit(Duration::from_secs(1))).unwrap_err()
}

#[test]
fn every_fact_of_the_probe_is_a_test() {
    assert_eq!(findings(Series::V6_1).listed, FACTS);
}

#[test]
fn a_panic_of_the_guest_comes_back_with_its_log() {
    let end = &findings(Series::V6_1).end;
    let Error::Panic { cause, console } = end else { panic!("{end:?}") };
    assert_eq!(cause, "sysrq triggered crash");
    assert!(console.text().contains("Call Trace:"), "{console}");
}

#[test]
fn a_guest_that_hangs_is_killed_and_said_to_hang() {
    let end = &findings(Series::V6_12).end;
    assert!(matches!(end, Error::Hang { .. }), "{end:?}");
}
