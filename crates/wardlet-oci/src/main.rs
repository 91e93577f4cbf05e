//! The program that containerd or CRI-O call in the place of an OCI runtime.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let failure = wardlet_oci::hand_over::become_runtime(Path::new("runc"), &arguments);
    eprintln!("wardlet-oci: runc: {failure}");
    ExitCode::FAILURE
}
