//! A client of D-Bus, as far as systemd and logind need one: calls with their answers, signals, and files that an answer
//! carries. It has one thread and one call open at a time, so that also a program can use it that forks.
//!
//! - [`Body`]: the arguments of a call; [`Call`]: a call.
//! - [`Connection`]: to a message bus, or to a program that has a socket of its own.
//! - [`Reply`]: an answer, and [`Signal`]: a signal, with typed values of their bodies.

mod connection;
mod error;
mod message;

pub use connection::Connection;
pub use error::{Error, Result};
pub use message::{Body, Call, Property, Reply, Signal, Value};
