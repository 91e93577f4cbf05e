//! A small SELinux machine for tests: a Debian kernel under QEMU, our own policy, pure cgroup v2.
//!
//! - [`install()`] and [`ensure`]: kernels, policy and base initramfs into the cache outside the checkout.
//! - [`Vm`]: one booted machine; [`Vm::exec`] as often as one likes, files in and out, then [`Vm::shutdown`].
//! - [`static_binary`], [`static_test`]: our own programs built so that they run inside; [`Payload`]: any
//!   file or program with the libraries that it needs.
//! - [`frame`]: what host and agent say to each other over the machine's serial port.
//! - [`Error`]: panics, oopses, hangs and overrun commands, each with the end of the console log.

mod base;
mod binaries;
mod boot;
mod cache;
mod console;
mod cpio;
mod debian;
mod error;
mod exec;
pub mod frame;
mod host;
mod install;
mod payload;
mod qemu;
mod series;
mod systemd;
mod unpacked;
mod vm;

pub use binaries::{static_binary, static_test};
pub use console::ConsoleLog;
pub use error::{Error, Result};
pub use exec::{Exec, Output, Stream};
pub use install::{ensure, install, install_systemd};
pub use payload::Payload;
pub use series::{Mode, Series};
pub use vm::{ADDRESS, Init, Options, Vm, new_disk};
