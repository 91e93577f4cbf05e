//! The node's pool of IDs, in order: the configuration; the entries of one user in subuid and
//! subgid; everything from 65536 up.

use std::path::Path;

use census::HostRoot;
use census::source::{SubidRange, discover};
use ids::HostSpan;
use ids::pool::{IdPool, NamedSpan, PoolOrigin, PoolRequest};

use crate::config::{Config, Range};
use crate::failure::Failure;

pub(crate) fn resolve(config: &Config, host_root: &HostRoot) -> Result<IdPool, Failure> {
    let settings = &config.settings.user_namespaces;
    let excluded: Vec<HostSpan> = settings.pool.exclude.iter().map(|r| r.0).collect();
    let block = settings.ids_per_pod;
    if let (Some(uids), Some(file)) = (&settings.pool.uids, &config.file) {
        let gids = settings.pool.gids.as_ref().unwrap_or(uids);
        let request = PoolRequest {
            block,
            uids: configured(uids, file, "uids"),
            gids: configured(gids, file, if settings.pool.gids.is_some() { "gids" } else { "uids" }),
            excluded,
            origin: PoolOrigin::Configuration { file: file.display().to_string() },
        };
        return Ok(IdPool::new(request)?);
    }
    let owner = &settings.subid_owner;
    let Some(source) = discover(host_root, Some(owner))? else {
        return Ok(IdPool::default_for(block, excluded)?);
    };
    let request = PoolRequest {
        block,
        uids: source.uids.into_iter().map(named).collect(),
        gids: source.gids.into_iter().map(named).collect(),
        excluded,
        origin: PoolOrigin::Subids { owner: owner.clone() },
    };
    Ok(IdPool::new(request)?)
}

fn configured(ranges: &[Range], file: &Path, field: &str) -> Vec<NamedSpan> {
    let origin = |i: usize| format!("{}: userNamespaces.pool.{field}[{i}]", file.display());
    ranges.iter().enumerate().map(|(i, range)| NamedSpan { ids: range.0, origin: origin(i) }).collect()
}

fn named(range: SubidRange) -> NamedSpan {
    NamedSpan { ids: range.ids, origin: range.origin }
}
