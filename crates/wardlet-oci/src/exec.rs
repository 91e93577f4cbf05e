//! One more process in a container of a pod with a user namespace.

use serde_json::{Value, json};

use crate::call::Exec;
use crate::error::{Error, Result};
use crate::hand_over;
use crate::lease::{Record, Standing, init_of};
use crate::site::Site;
use crate::unchanged;
use crate::ward::{self, ExecOrder};

/// Runs one more process in a container.
pub(crate) fn exec(site: &Site<'_>, wanted: &Exec) -> Result<u8> {
    match site.records.get(&site.root(), &wanted.id)? {
        Some(Record { standing: Standing::Ward { ids: Some(ids), .. }, pid_file, .. }) => {
            let gone = || Error::Sandbox { sandbox: wanted.id.clone(), cause: "does not run".to_owned() };
            let init = init_of(&pid_file, &ids).ok_or_else(gone)?;
            let order = ExecOrder { init, process: process(wanted)?, ids, runtime: site.traits()? };
            let joined = ward::join_for_exec(&order)?;
            let ended = hand_over::become_runtime(&site.runtime.path, &site.call.words);
            drop(joined);
            match ended? {}
        }
        Some(Record { standing: Standing::Ward { ids: None, .. }, .. }) => {
            Err(Error::Sandbox { sandbox: wanted.id.clone(), cause: "is still being made".to_owned() })
        }
        Some(Record { standing: Standing::NotIsolated { .. }, .. }) | None => unchanged(site),
    }
}

/// The process as OCI has it: from the caller's file, or its user from the caller's words.
fn process(wanted: &Exec) -> Result<Value> {
    if let Some(file) = &wanted.process {
        let text = crate::spec::read(file)?;
        return crate::spec::parse(&text).map_err(|cause| Error::spec(file, cause));
    }
    let (uid, gid) =
        wanted.user.as_deref().map_or(("0", "0"), |user| user.split_once(':').unwrap_or((user, "0")));
    let number = |id: &str| id.parse::<u32>().unwrap_or(0);
    Ok(json!({"user": {"uid": number(uid), "gid": number(gid)}}))
}
