//! `vm install` and `vm run`: the SELinux guest from the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use vm::frame::Ended;
use vm::{Error, Exec, Init, Mode, Options, Payload, Result, Series, Stream, Vm};

/// As coreutils' timeout has it.
const OVERRAN: u8 = 124;
/// The guest, not the command, failed.
const BROKEN: u8 = 125;
const NOT_STARTED: u8 = 127;

/// A small SELinux machine under QEMU.
#[derive(Parser)]
#[command(name = "vm")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Gets the newest kernels into the cache (WARDLET_CACHE), with policy and initramfs, and systemd for guests that have it.
    Install {
        /// Only this kernel: 6.1 or 6.12.
        #[arg(long)]
        kernel: Option<Series>,
    },
    /// Boots a guest, runs a command in it and ends with the command's status. 124: the command took too
    /// long. 125: the guest panicked, hung or could not be had. 127: the command could not be started.
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// 6.1 or 6.12.
    #[arg(long, default_value = "6.12")]
    kernel: Series,
    /// Has systemd as process 1, on a machine without SELinux.
    #[arg(long)]
    systemd: bool,
    /// permissive or enforcing.
    #[arg(long, default_value = "enforcing")]
    mode: Mode,
    /// A file here and its path in the guest; programs bring their shared libraries. Repeatable.
    #[arg(long = "file", value_name = "HOST:GUEST")]
    files: Vec<Payload>,
    /// Seconds that the command may take.
    #[arg(long, default_value_t = 120, value_name = "S")]
    timeout: u64,
    /// The guest's memory in MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    memory: u32,
    /// Where to copy what the command leaves in /out, with the console's and the kernel's log.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The command and its arguments, as the guest has them.
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Install { kernel } => install(kernel).map(|()| 0),
        Command::Run(run) => boot_and_run(&run),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(report(&error)),
    }
}

fn install(kernel: Option<Series>) -> Result<()> {
    let wanted = kernel.map_or_else(|| Series::ALL.to_vec(), |series| vec![series]);
    wanted.into_iter().try_for_each(|series| vm::install(series).map(drop))?;
    vm::install_systemd().map(drop)
}

fn boot_and_run(run: &Run) -> Result<u8> {
    vm::ensure(run.kernel)?;
    let options = Options {
        mode: run.mode,
        init: if run.systemd { Init::Systemd } else { Init::Script },
        payloads: run.files.clone(),
        memory_mib: run.memory,
        ..Options::new(run.kernel)
    };
    let guest = Vm::boot(&options)?;
    let seconds = guest.boot_time().as_secs_f64();
    eprintln!("vm: {} booted in {seconds:.1} s, {}", guest.hello().release, run.mode);
    let exec = Exec::new(&run.command).limit(Duration::from_secs(run.timeout));
    let ended = guest.watch(&exec, &mut pass_on);
    if let Some(out) = &run.out {
        keep(&guest, ended.as_ref().err(), out)?;
    }
    let code = status(&ended?);
    guest.shutdown()?;
    Ok(code)
}

/// A guest that is gone still has a console.
fn keep(guest: &Vm, error: Option<&Error>, out: &Path) -> Result<()> {
    if !matches!(
        error,
        Some(Error::Panic { .. } | Error::Oops { .. } | Error::Hang { .. } | Error::Ended { .. })
    ) {
        guest.exec(&["sh", "-c", "dmesg >/out/dmesg.log"])?;
        guest.fetch("/out", out)?;
    }
    let write = || {
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join("console.log"), guest.console().text())
    };
    write().map_err(|cause| Error::File { verb: "write", path: out.join("console.log"), cause })
}

/// A reader of ours that went away is no reason to stop the guest.
fn pass_on(stream: Stream, bytes: &[u8]) {
    let _ = match stream {
        Stream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
        Stream::Stderr => std::io::stderr().write_all(bytes),
    };
}

fn status(ended: &Ended) -> u8 {
    match ended {
        Ended::Code(code) => u8::try_from(*code).unwrap_or(BROKEN),
        Ended::Signal(signal) => u8::try_from(128 + signal).unwrap_or(BROKEN),
        Ended::NotStarted(_) => NOT_STARTED,
    }
}

fn report(error: &Error) -> u8 {
    if let Some(console) = error.console() {
        eprintln!("--- the end of the guest's console\n{console}---");
    }
    eprintln!("error: {error}");
    if let Some(hint) = error.hint() {
        eprintln!("\nhint: {hint}");
    }
    match error {
        Error::Overran { .. } => OVERRAN,
        Error::NotStarted { .. } => NOT_STARTED,
        _ => BROKEN,
    }
}
