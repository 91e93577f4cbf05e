//! The node's pool of IDs, in order: the configuration; the entries of one user in subuid and
//! subgid; everything from 65536 up.

use std::path::Path;

use census::HostRoot;
use ids::HostSpan;
use ids::pool::{IdPool, NamedSpan, PoolOrigin, PoolRequest};

use crate::subid::{SubidRange, discover};
use crate::{Config, Range, SettingsError};

/// The pool of a node that is configured like this.
pub fn resolve(config: &Config, host_root: &HostRoot) -> Result<IdPool, SettingsError> {
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

/// The pool that the wrapper leases from: its own where it is configured with one, else the node's.
pub fn for_wrapper(config: &Config, host_root: &HostRoot) -> Result<IdPool, SettingsError> {
    let wrapper = &config.settings.wrapper;
    let (Some((uids, gids)), Some(file)) = (wrapper.spans(), &config.file) else {
        return resolve(config, host_root);
    };
    let named = |ids, lane: &str| {
        let origin = format!("{}: wrapper.user_namespace_host_{lane}_base", file.display());
        vec![NamedSpan { ids, origin }]
    };
    let request = PoolRequest {
        block: wrapper.range_size,
        uids: named(uids, "uid"),
        gids: named(gids, "gid"),
        excluded: config.settings.user_namespaces.pool.exclude.iter().map(|r| r.0).collect(),
        origin: PoolOrigin::Configuration { file: file.display().to_string() },
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
