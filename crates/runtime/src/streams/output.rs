//! The output of a command, to its last byte.

use std::sync::Arc;

use streaming::Writer;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::drain::Last;

/// How much is read at a time.
const PIECE: usize = 32 << 10;

/// Output on its way to a client.
pub(super) struct Output {
    task: JoinHandle<()>,
    /// Its writer has ended.
    ended: Arc<Notify>,
}

impl Output {
    /// Carries it until one of both ends, or a while after its writer has.
    pub(super) fn carry(from: impl AsyncRead + Send + Unpin + 'static, to: Writer) -> Self {
        let ended = Arc::new(Notify::new());
        let over = Arc::clone(&ended);
        Self { task: tokio::spawn(async move { deliver(from, to, &over).await }), ended }
    }
}

/// Until all that was written is delivered, however slowly the client takes it.
pub(super) async fn drained(output: Vec<Output>) {
    output.iter().for_each(|output| output.ended.notify_one());
    for Output { task, .. } in output {
        // It ends by itself.
        let _ = task.await;
    }
}

async fn deliver(mut from: impl AsyncRead + Unpin, mut to: Writer, over: &Notify) {
    let mut buffer = vec![0; PIECE];
    let mut last = Last::default();
    // A terminal without a program ends by an error.
    while let Some(read @ 1..) = last.read(&mut from, &mut buffer, over).await {
        let Some(piece) = buffer.get(..read) else { break };
        if to.write_all(piece).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::drain::{DRAIN, FULL_PIPE};

    #[tokio::test]
    async fn a_client_that_is_slow_gets_all_that_was_written() {
        let (from, mut program) = tokio::io::duplex(FULL_PIPE);
        let (to, mut client) = tokio::io::duplex(1);
        let output = Output::carry(from, Box::new(to));
        program.write_all(&vec![7; FULL_PIPE]).await.unwrap();
        // A grandchild keeps the pipe open.
        let _grandchild = program;
        let taken = tokio::spawn(async move {
            tokio::time::sleep(DRAIN + DRAIN / 4).await;
            let mut taken = vec![];
            client.read_to_end(&mut taken).await.unwrap();
            taken.len()
        });
        drained(vec![output]).await;
        assert_eq!(taken.await.unwrap(), FULL_PIPE);
    }

    #[tokio::test]
    async fn a_grandchild_that_writes_for_ever_is_not_waited_for() {
        let (from, mut grandchild) = tokio::io::duplex(FULL_PIPE);
        let (to, mut client) = tokio::io::duplex(FULL_PIPE);
        tokio::spawn(async move {
            while grandchild.write_all(&[7; 1000]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let taken = tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
        drained(vec![Output::carry(from, Box::new(to))]).await;
        taken.await.unwrap().unwrap();
    }
}
