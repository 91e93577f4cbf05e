//! The program that containerd or CRI-O call instead of an OCI runtime.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called_as = words.next().unwrap_or_default();
    wardlet_oci::run(&called_as, words.collect()).into()
}
