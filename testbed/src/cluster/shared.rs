//! One control plane for a whole test run: the first user starts it and the last one ends it.

use std::time::Duration;

use super::parts::Parts;
use super::record::Lifetime;
use super::testbed::{Options, Testbed};
use crate::{Error, Result};

/// Its name, unless `WARDLET_TESTBED` gives another.
const NAME: &str = "shared";
/// Test binaries run one after the other: between two of them it may have no user.
const LINGER: u64 = 15;

/// etcd and the API server, shared by all callers. It ends some seconds after the last of the values returned is
/// dropped, or their processes have died.
///
/// # Errors
/// If it cannot be started.
pub fn shared() -> Result<Testbed> {
    let name = std::env::var("WARDLET_TESTBED").unwrap_or_else(|_| NAME.to_owned());
    let mut refused = None;
    // One that is just ending refuses us, and is gone a moment later.
    for _ in 0..300 {
        match Testbed::attach(&name) {
            Ok(testbed) => return Ok(testbed),
            Err(Error::Absent { .. }) => {}
            Err(error) => return Err(error),
        }
        match Testbed::start(options(&name)) {
            // Started by us, but others may be using it: it ends with its last user, not with this value.
            Ok(testbed) => return Ok(testbed.outlived()),
            Err(error @ Error::InUse { .. }) => refused = Some(error),
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(refused.unwrap_or(Error::Absent { name }))
}

fn options(name: &str) -> Options {
    Options {
        name: Some(name.to_owned()),
        lifetime: Lifetime::Users { linger: LINGER },
        ..Options::from(Parts::control_plane())
    }
}
