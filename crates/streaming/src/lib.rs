//! Exec, attach and port-forward: the HTTP server whose URLs a CRI runtime gives out.
//!
//! - [`Server`]: gives out URLs, each valid for one client within a minute, and serves clients over WebSocket or
//!   SPDY/3.1, as Kubernetes' clients speak them.
//! - [`Handler`]: what the runtime does for them, with [`Streams`] of bytes.
//! - [`client`]: the other end, for a command; [`terminal`]: the terminal of such a command.
//! - [`bridge`]: a session between a WebSocket client and such a URL, where the server of the URL speaks SPDY.
//! - [`enum@Error`]: why there is no URL.
//!
//! A client's request becomes an upgrade (`connection`, `negotiate`); each kind of connection (`websocket`, `spdy`)
//! carries streams (`link`), which a session (`command`, `ports`) lends to the handler (`lent`).

mod asking;
pub mod bridge;
pub mod client;
mod command;
mod connection;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod lent;
mod link;
mod negotiate;
mod ports;
mod resize;
mod server;
mod spdy;
mod status;
pub mod terminal;
mod tokens;
mod websocket;

pub use error::{Error, Result};
pub use handler::{
    Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, PortForwardRequest, ReadWrite, Reader,
    Size, Streams, Writer,
};
pub use server::Server;
