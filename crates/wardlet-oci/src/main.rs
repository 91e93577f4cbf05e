//! The program that containerd or CRI-O call in the place of an OCI runtime.

#![no_main]

kernel::program!(begin);

fn begin() -> u8 {
    let mut words = std::env::args_os();
    let called_as = words.next().unwrap_or_default();
    wardlet_oci::run(&called_as, words.collect())
}
