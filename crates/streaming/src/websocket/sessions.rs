//! What a client gets over WebSocket.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{Closing, Coding, Layout, frame, open};
use crate::command::{self, Asked, Channels, Role, Verdict};
use crate::handler::{Handler, PortForwardRequest};
use crate::ports;

/// What the subprotocol of an exec or attach session says: how channels are written and closed, and how the error
/// channel speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subprotocol {
    pub(crate) coding: Coding,
    pub(crate) closing: Closing,
    pub(crate) verdict: Verdict,
}

/// A command or an attachment.
pub(crate) async fn command<T>(io: T, handler: &Arc<dyn Handler>, asked: Asked, subprotocol: Subprotocol)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let Subprotocol { coding, closing, verdict } = subprotocol;
    let mut roles = asked.roles();
    roles.push(Role::Resize);
    let numbers: Vec<u8> = roles.iter().map(|role| role.channel()).collect();
    let (link, streams) = open(io, Layout::Channels(coding, closing), &numbers);
    let mut channels = Channels::default();
    for (role, stream) in roles.iter().zip(streams) {
        channels.add(*role, stream);
    }
    // Some clients take the first message for the sign that they are connected.
    let first = [Role::Stdout, Role::Stderr].into_iter().find(|role| channels.has(*role));
    link.send(coding.message(first.unwrap_or(Role::Error).channel(), &[])).await;
    command::run(handler, asked, channels, verdict, link.gone()).await;
    link.close(frame::close(frame::NORMAL)).await;
}

/// Connections to ports, each with two channels: data and errors. Each channel begins with its port, the lower byte
/// first.
pub(crate) async fn forward<T>(io: T, handler: &Arc<dyn Handler>, asked: PortForwardRequest, coding: Coding)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let numbers: Vec<u8> = (0..=u8::MAX).take(2 * asked.ports.len()).collect();
    let (link, streams) = open(io, Layout::Channels(coding, Closing::Impossible), &numbers);
    let mut streams = streams.into_iter();
    let mut running = JoinSet::new();
    for port in asked.ports {
        let (Some(mut data), Some(mut error)) = (streams.next(), streams.next()) else { break };
        let _ = data.io.write_all(&port.to_le_bytes()).await;
        let _ = error.io.write_all(&port.to_le_bytes()).await;
        let (handler, sandbox) = (Arc::clone(handler), asked.sandbox.clone());
        running.spawn(async move { ports::connect(&handler, sandbox, port, data, error).await });
    }
    let all = async { while running.join_next().await.is_some() {} };
    let mut gone = link.gone();
    tokio::select! {
        () = all => {}
        // A pod that never closes its side would keep the connections for ever.
        _ = gone.wait_for(|gone| *gone) => {}
    }
    running.shutdown().await;
    link.close(frame::close(frame::NORMAL)).await;
}

/// SPDY inside of WebSocket's messages.
pub(crate) async fn tunnel<T>(io: T, handler: &Arc<dyn Handler>, sandbox: String)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (link, streams) = open(io, Layout::Tunnel, &[0]);
    for stream in streams {
        crate::spdy::sessions::forward(stream.io, handler, sandbox.clone()).await;
        stream.drained.wait().await;
    }
    link.close(frame::close(frame::NORMAL)).await;
}
