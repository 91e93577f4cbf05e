use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Result};

const OWN: &str = "/proc/self/oom_score_adj";

/// Resets a negative `oom_score_adj` of the calling process to 0. A node agent has a negative one and its children
/// inherit it; containers must not. Fails if /proc cannot be read or written.
pub fn reset_oom_score_adj() -> Result<()> {
    set(None).map_err(|errno| Error::Open { path: OWN.into(), errno })
}

/// Sets `oom_score_adj` of the calling process; without a value, to at least 0.
pub(crate) fn set(wanted: Option<i32>) -> std::result::Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(OWN, flags, Mode::empty())?;
    let score = match wanted {
        Some(score) => score,
        None => {
            let mut text = [0; 16];
            let length = rustix::io::read(&file, &mut text)?;
            let negative = text.get(..length).is_some_and(|text| text.starts_with(b"-"));
            if !negative {
                return Ok(());
            }
            0
        }
    };
    rustix::io::write(&file, score.to_string().as_bytes()).map(drop)
}
