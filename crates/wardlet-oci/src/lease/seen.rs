//! What one call has seen of the host, kept for the calls that follow at once.
//!
//! A node that starts many pods would look at all of its processes for each of them. The ledger says for how long a look
//! counts when a new block is chosen; whether a block is vacant is never judged by what lies here. What others have written
//! down as theirs is read anew each time: a kubelet writes down what it gives to a pod before that runs.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use durable::{AtomicFile, Lifetime};
use ids::witness::{Hold, Sighting, Use, Witness, WitnessError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A witness whose looks are kept in a file that ends with the boot.
pub(super) struct Kept<W> {
    pub(super) witness: W,
    /// What is written down as somebody's now.
    pub(super) claims: fn(&W) -> Vec<Use>,
    pub(super) file: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Look {
    version: u32,
    /// When it began, by a clock that only goes on and begins with the boot.
    began: Duration,
    boot: String,
    uses: Vec<Use>,
    blind: Vec<String>,
}

const VERSION: u32 = 2;

impl<W: Witness> Witness for Kept<W> {
    fn look(&self) -> Result<Sighting, WitnessError> {
        let began = since_boot();
        let sighting = self.witness.look()?;
        self.keep(began, &sighting);
        Ok(sighting)
    }

    fn look_to_lease(&self) -> Result<Sighting, WitnessError> {
        let began = since_boot();
        let sighting = self.witness.look_to_lease()?;
        self.keep(began, &sighting);
        Ok(sighting)
    }

    fn remaining(&self, places: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        self.witness.remaining(places)
    }
}

/// A look of another call, without what is to be read anew.
pub(super) struct Earlier {
    pub(super) began: Instant,
    uses: Vec<Use>,
    blind: Vec<String>,
}

impl<W> Kept<W> {
    /// The last look that was kept, if it is of this boot.
    pub(super) fn earlier(&self) -> Option<Earlier> {
        let look: Look = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        let age = since_boot().checked_sub(look.began)?;
        let began = Instant::now().checked_sub(age)?;
        let counts = look.version == VERSION && look.boot == boot();
        counts.then_some(Earlier { began, uses: look.uses, blind: look.blind })
    }

    /// What was seen then, and what is written down as somebody's now.
    pub(super) fn recall(&self, earlier: Earlier) -> Sighting {
        let Earlier { mut uses, blind, .. } = earlier;
        uses.extend((self.claims)(&self.witness));
        Sighting::new(uses, blind)
    }

    /// Keeps a look that began so long after the boot. What cannot be kept is looked for again.
    pub(super) fn keep(&self, began: Duration, sighting: &Sighting) {
        let live = sighting.uses().iter().filter(|one| one.hold == Hold::Live);
        let (uses, blind) = (live.cloned().collect(), sighting.blind().to_vec());
        let look = Look { version: VERSION, began, boot: boot(), uses, blind };
        let temporary = self.file.with_extension(std::process::id().to_string());
        let _ = self.file.parent().map(|dir| fs::DirBuilder::new().recursive(true).mode(0o755).create(dir));
        if let Ok(text) = serde_json::to_vec(&look) {
            let file = AtomicFile::at(&self.file).temporary(temporary.file_name().unwrap_or_default());
            let _ = file.lifetime(Lifetime::Boot).replace(&text);
        }
    }
}

/// Which boot this is: the directory may be one that outlives it.
fn boot() -> String {
    procfs::boot_id(Path::new("/proc")).unwrap_or_default()
}

pub(super) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ids::{HostSpan, IdKind};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    fn one(first: u64, hold: Hold) -> Use {
        let ids = HostSpan::new(first, 5).unwrap();
        Use { kind: IdKind::Gid, ids, hold, by: "somebody".to_owned() }
    }

    impl Witness for Counting {
        fn look(&self) -> Result<Sighting, WitnessError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let uses = vec![one(70_000, Hold::Live), one(80_000, Hold::Claimed)];
            Ok(Sighting::new(uses, vec!["a corner".to_owned()]))
        }

        fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
            Ok(Vec::new())
        }
    }

    fn kept(file: PathBuf) -> Kept<Counting> {
        Kept { witness: Counting::default(), claims: |_| vec![one(90_000, Hold::Claimed)], file }
    }

    #[test]
    fn a_look_is_found_by_others_as_it_was_and_is_as_old_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("run/seen");
        assert!(kept(file.clone()).earlier().is_none());
        let before = Instant::now();
        kept(file.clone()).look().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let kept = kept(file);
        let earlier = kept.earlier().unwrap();
        let (began, found) = (earlier.began, kept.recall(earlier));
        assert_eq!(found.blind(), ["a corner"]);
        assert!(began + Duration::from_millis(1) >= before && began.elapsed() >= Duration::from_millis(5));
        let left: Vec<_> =
            fs::read_dir(dir.path().join("run")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["seen"]);
    }

    #[test]
    fn what_is_written_down_as_somebodys_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen");
        kept(file.clone()).look().unwrap();
        let kept = kept(file);
        let found = kept.recall(kept.earlier().unwrap());
        assert_eq!(found.uses(), [one(70_000, Hold::Live), one(90_000, Hold::Claimed)]);
    }

    #[test]
    fn whoever_looks_looks_anew() {
        let dir = tempfile::tempdir().unwrap();
        let kept = kept(dir.path().join("seen"));
        kept.look().unwrap();
        kept.look().unwrap();
        assert_eq!(kept.witness.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_is_of_another_version_or_boot_or_of_the_future_is_not_gone_by() {
        let dir = tempfile::tempdir().unwrap();
        let kept = kept(dir.path().join("seen"));
        kept.look().unwrap();
        let text = fs::read_to_string(&kept.file).unwrap();
        let is_gone_by = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            fs::write(&kept.file, text.replace(from, to)).unwrap();
            kept.earlier().is_some()
        };
        assert!(is_gone_by("\"version\":2", "\"version\":2"));
        assert!(!is_gone_by("\"version\":2", "\"version\":1"));
        assert!(!is_gone_by("\"boot\":\"", "\"boot\":\"another "));
        assert!(!is_gone_by("\"secs\":", "\"secs\":9"));
        assert!(!is_gone_by("{", "["));
    }
}
