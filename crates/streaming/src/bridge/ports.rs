use tokio::io::{AsyncRead, AsyncWrite, copy, split};

use crate::websocket::{Layout, frame, open};

/// SPDY inside of WebSocket's messages, taken out of them.
pub(super) async fn run<C, R>(client: C, runtime: R)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    R: AsyncRead + AsyncWrite + Send + 'static,
{
    let (link, streams) = open(client, Layout::Tunnel, &[0]);
    if let Some(stream) = streams.into_iter().next() {
        let (mut from_client, mut to_client) = split(stream.io);
        let (mut from_runtime, mut to_runtime) = split(runtime);
        let mut gone = link.gone();
        // SPDY does not go on in one direction only.
        tokio::select! {
            _ = copy(&mut from_client, &mut to_runtime) => {}
            _ = copy(&mut from_runtime, &mut to_client) => {}
            _ = gone.wait_for(|gone| *gone) => {}
        }
        drop((from_client, to_client));
        stream.drained.wait().await;
    }
    link.close(frame::close(frame::NORMAL)).await;
}
