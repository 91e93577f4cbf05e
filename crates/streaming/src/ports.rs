//! One connection to a port inside a sandbox.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use crate::handler::Handler;
use crate::lent::lend;
use crate::link::Stream;

/// Connects `data`, and says on `error` why it could not be done.
pub(crate) async fn connect(
    handler: &Arc<dyn Handler>,
    sandbox: String,
    port: u16,
    data: Stream,
    mut error: Stream,
) {
    let (lender, lent) = lend(data.io);
    let failed = handler.port_forward(sandbox.clone(), port, Box::new(lent)).await;
    if let Err(cause) = failed {
        let said = format!("error forwarding port {port} to pod {sandbox}: {cause}");
        let _ = error.io.write_all(said.as_bytes()).await;
    }
    drop(error.io);
    error.drained.wait().await;
    drop(lender);
    data.drained.wait().await;
}
