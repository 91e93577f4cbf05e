//! Keeps the file with the resources that pods have in effect up to date.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::warn;

use crate::shared::{Shared, blocking};

/// How long changes are gathered before they are written.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the file up to date as long as the agent lives.
pub(crate) async fn follow(shared: Weak<Shared>) {
    loop {
        let Some(changed) = shared.upgrade().map(|shared| shared.running.changes()) else { return };
        changed.notified().await;
        tokio::time::sleep(PAUSE).await;
        let Some(shared) = shared.upgrade() else { return };
        save(shared).await;
    }
}

/// Writes the file now.
pub(crate) async fn save(shared: Arc<Shared>) {
    let saved = blocking("recording the resources of pods", move || {
        if let Some(actuated) = &shared.actuated {
            actuated.save(&shared.running);
        }
        Ok(())
    });
    if let Err(error) = saved.await {
        warn!("{error}");
    }
}
