use ids::pool::{IdPool, PoolOrigin};
use ids::{BlockLength, HostSpan, IdKind};
use node::Settings;
use serde::Serialize;

use super::Session;
use crate::failure::{Answer, Failure};
use crate::words;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigView<'a> {
    /// Where it was read; nothing if all of it is default.
    file: Option<String>,
    settings: &'a Settings,
    pool: PoolView<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolView<'a> {
    origin: &'a PoolOrigin,
    block_length: BlockLength,
    capacity: u32,
    uids: Vec<HostSpan>,
    gids: Vec<HostSpan>,
}

pub(super) fn run(session: &Session) -> Result<Answer, Failure> {
    let (config, pool) = (&session.node.config, session.node.pool()?);
    words::pool_notes(&pool, session.node.max_pods());
    let file = config.file.as_ref().map(|f| f.display().to_string());
    let yaml = serde_saphyr::to_string(&config.settings).map_err(|e| Failure::unknown(e.to_string()))?;
    let view = ConfigView { file, settings: &config.settings, pool: pool_view(&pool) };
    session.format.print(&view, || text(&view, &pool, &yaml))?;
    Ok(Answer::Holds)
}

fn pool_view(pool: &IdPool) -> PoolView<'_> {
    PoolView {
        origin: pool.origin(),
        block_length: pool.block(),
        capacity: pool.capacity(),
        uids: pool.spans(IdKind::Uid),
        gids: pool.spans(IdKind::Gid),
    }
}

/// A configuration file again: what is not a setting is a comment.
fn text(view: &ConfigView<'_>, pool: &IdPool, yaml: &str) -> String {
    let file = view.file.as_ref().map(|file| format!("read from {file}"));
    let file = file.unwrap_or_else(|| "there is no configuration file: these are the defaults".to_owned());
    let spans = |spans: &[HostSpan]| spans.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "# {file}\n{yaml}\
         # the pool: {}\n#   uids {}\n#   gids {}\n#   {} leases of {} IDs fit\n",
        pool.origin(),
        spans(&view.pool.uids),
        spans(&view.pool.gids),
        view.pool.capacity,
        view.pool.block_length
    )
}
