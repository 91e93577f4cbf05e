//! Another container of a pod with a user namespace: it joins that of the first.

use std::path::PathBuf;

use super::decide::Next;
use super::{bundle as callers, claim, record, sandbox::words};
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{self, Subject};
use crate::hand_over;
use crate::lease::{Leases, Record, Standing, init_of};
use crate::site::Site;
use crate::spec;
use crate::ward::{self, Order, Role};

pub(super) fn make(site: &Site<'_>, wanted: &Create, next: &Next) -> Result<u8> {
    let broken =
        |cause: &str| Error::Sandbox { sandbox: next.sandbox.container.clone(), cause: cause.to_owned() };
    let Standing::Ward { holder, ids: Some(ids) } = &next.sandbox.standing else {
        return Err(broken("is still being made"));
    };
    let init = init_of(&next.sandbox.pid_file, ids).ok_or_else(|| broken("does not run"))?;
    let traits = site.traits()?;
    let spec = spec::parse(&next.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
    let length = ids.uids.iter().map(|line| line.length()).sum();
    gate::check(&Subject { spec: &spec, annotations: &next.annotations, ids: length, runtime: traits.kind })?;
    let places = callers::places(wanted, &spec)?;
    Leases::open(&site.config)?.add_places(holder.clone(), places)?;
    let standing = Standing::Ward { holder: holder.clone(), ids: Some(ids.clone()) };
    let record = record(site, wanted, &next.sandbox.container, &next.sandbox.pod, standing);
    claim(site, &record)?;
    let order = Order {
        bundle: wanted.bundle.clone(),
        container_id: wanted.id.clone(),
        spec,
        ids: ids.clone(),
        role: Role::Inherit { userns: PathBuf::from(format!("/proc/{init}/ns/user")) },
        runtime: traits,
        on_refusal: site.config.settings.policy.volumes.cannot_idmap,
        stage: site.settings().run_dir.join("stage"),
    };
    let failed = hand_over(site, wanted, &order, &record);
    let _ = site.records.remove(&record.root, &record.container);
    failed
}

/// Comes back only with an error: the runtime has nothing to give back if it fails.
fn hand_over(site: &Site<'_>, wanted: &Create, order: &Order, record: &Record) -> Result<u8> {
    let made = ward::make(order)?;
    callers::show(&made.spec, &order.stage, wanted)?;
    site.log.decision(&format!(
        "pod {}: container {} joins the user namespace of sandbox {}",
        record.pod, record.container, record.sandbox
    ));
    match hand_over::become_runtime(&site.runtime.path, &words(site, wanted, record))? {}
}
