use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Result};

const OWN: &str = "/proc/self/oom_score_adj";

/// Whoever keeps a node running is spared when memory runs out. What it starts for others is not: this takes
/// that from the calling process and those that it starts.
pub fn not_spared() -> Result<()> {
    set(None).map_err(|errno| Error::Open { path: OWN.into(), errno })
}

/// The score of the calling process; unless given, no lower than that of a process of which nobody said
/// anything.
pub(crate) fn set(wanted: Option<i32>) -> std::result::Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(OWN, flags, Mode::empty())?;
    let score = match wanted {
        Some(score) => score,
        None => {
            let mut text = [0; 16];
            let length = rustix::io::read(&file, &mut text)?;
            let spared = text.get(..length).is_some_and(|text| text.starts_with(b"-"));
            if !spared {
                return Ok(());
            }
            0
        }
    };
    rustix::io::write(&file, score.to_string().as_bytes()).map(drop)
}
