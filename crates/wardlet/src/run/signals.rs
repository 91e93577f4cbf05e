use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that stop the pods: SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::unknown(format!("cannot catch signals: {e}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
