//! A container that was made is started.

use crate::create;
use crate::error::Result;
use crate::lease::Standing;
use crate::site::Site;
use crate::unchanged;

/// Starts a container. Most runtimes have its files since it was made; of the others, a pod's first container
/// does.
pub(crate) fn start(site: &Site<'_>, id: &str) -> Result<u8> {
    match site.records.get(&site.root(), id)? {
        Some(record)
            if matches!(record.standing, Standing::Ward { .. })
                && !record.is_sandbox()
                && site.traits()?.kind.opens_files_at_start() =>
        {
            create::again(site, &record)
        }
        _ => unchanged(site),
    }
}
