//! A filesystem that no kernel idmaps, and the operator's word about it.

use std::path::PathBuf;

use super::{Stage, text};

/// The overlay on /srv/wardlet/data of the examples. Dropped, it is unmounted.
pub(crate) struct Overlay<'a> {
    stage: &'a Stage,
    /// Where its files are on disk.
    pub(crate) upper: PathBuf,
}

impl Stage {
    pub(crate) fn data_on_an_overlay(&self) -> Overlay<'_> {
        let (data, work) = (self.srv().join("data"), self.path("overlay"));
        let _ = std::fs::remove_dir_all(&work);
        for dir in [&data, &work.join("lower"), &work.join("upper"), &work.join("work")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let options = format!("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", work.display());
        let words = ["-t", "overlay", "-o", &options, "data", data.to_str().unwrap()];
        let done = self.inside("mount", &words).output().unwrap();
        assert!(done.status.success(), "{}", text(&done));
        Overlay { stage: self, upper: work.join("upper") }
    }

    /// With the operator's rule for filesystems that cannot be idmapped.
    pub(crate) fn with_a_shared_block<T>(&self, work: impl FnOnce() -> T) -> T {
        let rule = "policy: {volumes: {rules: [{filesystems: [overlay], rule: sharedBlock}]}}\n";
        let _restored = Restored(self);
        self.configure(rule);
        work()
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        let data = self.stage.path("srv/data");
        let _ = self.stage.inside("umount", &["--lazy", data.to_str().unwrap_or_default()]).status();
    }
}

struct Restored<'a>(&'a Stage);

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        self.0.configure("");
    }
}
