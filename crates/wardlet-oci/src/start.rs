//! `start`: starts a created container.

use oci_records::Standing;

use crate::create;
use crate::error::Result;
use crate::site::Site;
use crate::unchanged;

/// Starts a container. Most runtimes open its files at `create`. gVisor opens those of all containers but the sandbox
/// at `start`, and so they are prepared again.
pub(crate) fn start(site: &Site<'_>, id: &str) -> Result<u8> {
    match site.records.get(&site.root(), id)? {
        Some(record)
            if matches!(record.standing, Standing::Isolated { .. })
                && !record.is_sandbox()
                && site.traits()?.kind.opens_files_at_start() =>
        {
            create::again(site, &record)
        }
        _ => unchanged(site),
    }
}
