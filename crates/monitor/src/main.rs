//! One process per pod, which keeps its containers' streams, logs and exit codes.

mod arguments;
mod children;
mod connection;
mod console;
mod container;
mod detach;
mod log;
mod note;
mod oom;
mod peer;
mod pod;
mod requests;
mod settle;
mod shared;
mod slot;
mod streams;

use std::io::Write;
use std::process::ExitCode;

use arguments::{USAGE, Wanted, parse};

fn main() -> ExitCode {
    match parse(std::env::args_os().skip(1)) {
        Ok(Wanted::Usage) => say(USAGE),
        Ok(Wanted::Version) => say(concat!("wardlet-monitor ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Wanted::Launch(arguments)) => finish(detach::launch(&arguments)),
        Ok(Wanted::Watch(arguments)) => watch(&arguments),
        Err(what) => {
            let _ = writeln!(std::io::stderr(), "wardlet-monitor: {what}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn watch(arguments: &arguments::Arguments) -> ExitCode {
    let pod = match settle::settle(arguments) {
        Ok(pod) => pod,
        Err(what) => {
            note::note(&what);
            // The process that started the monitor waits for this message.
            let _ = rustix::io::write(rustix::stdio::stdout(), what.as_bytes());
            return ExitCode::FAILURE;
        }
    };
    match pod.watch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(errno) => {
            note::note(format_args!("cannot wait: {errno}"));
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) -> ExitCode {
    finish(std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string()))
}

fn finish(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            let _ = writeln!(std::io::stderr(), "{what}");
            ExitCode::FAILURE
        }
    }
}
