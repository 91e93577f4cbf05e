use std::collections::BTreeMap;

use anyhow::Context;

use crate::evidence::Owner;

/// A file whose owner is looked at from everywhere.
pub(crate) struct Watched {
    /// Its path inside.
    pub(crate) path: &'static str,
    /// Its user and group ID inside.
    pub(crate) id: u32,
    pub(crate) on_disk: OnDisk,
}

/// Where a file's bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisk {
    /// In the volume, idmapped; it was there before the container.
    Volume,
    /// In the volume, idmapped; the container writes it.
    NewInVolume,
    /// In the image's layer, idmapped.
    Layer,
    /// In the plain upper layer: new there, or copied up from the image's.
    Upper,
}

pub(crate) const WATCHED: [Watched; 6] = [
    Watched { path: "/data/of-root", id: 0, on_disk: OnDisk::Volume },
    Watched { path: "/data/of-1000", id: 1000, on_disk: OnDisk::Volume },
    Watched { path: "/data/written-inside", id: 0, on_disk: OnDisk::NewInVolume },
    Watched { path: "/bin/busybox", id: 0, on_disk: OnDisk::Layer },
    Watched { path: "/etc/motd", id: 1000, on_disk: OnDisk::Upper },
    Watched { path: "/tmp/made-inside", id: 0, on_disk: OnDisk::Upper },
];

/// The last line of what the container says.
pub(crate) const END: &str = "@end";

/// What the container does: writes, looks about, tells, and lives until its input ends. So it ends
/// when we do, however that happens.
pub(crate) fn text() -> String {
    let files: Vec<&str> = WATCHED.iter().map(|file| file.path).collect();
    format!(
        "exec 2>&1
echo written >/data/written-inside
echo made >/tmp/made-inside
echo changed >>/etc/motd
echo @uid_map; cat /proc/self/uid_map
echo @gid_map; cat /proc/self/gid_map
echo @id; id
echo @list; ls -ln / /data
echo @owners; stat -c '%u:%g %n' {}
echo {END}
exec cat >/dev/null
",
        files.join(" ")
    )
}

/// What the container told.
#[derive(Debug)]
pub(crate) struct Inside {
    sections: BTreeMap<String, Vec<String>>,
}

impl Inside {
    pub(crate) fn parse(told: &str) -> Self {
        let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut name = String::new();
        for line in told.lines() {
            match line.strip_prefix('@') {
                Some(new) => new.clone_into(&mut name),
                None => sections.entry(name.clone()).or_default().push(line.to_owned()),
            }
        }
        Self { sections }
    }

    pub(crate) fn lines(&self, section: &str) -> &[String] {
        self.sections.get(section).map_or(&[], Vec::as_slice)
    }

    /// The one line of a map, its columns parted by single blanks.
    pub(crate) fn map(&self, section: &str) -> String {
        crate::evidence::map_text(&self.lines(section).join("\n"))
    }

    pub(crate) fn owner(&self, path: &str) -> anyhow::Result<Owner> {
        let told = || self.lines("owners").join("; ");
        let line = self.lines("owners").iter().find_map(|line| line.strip_suffix(path)?.strip_suffix(' '));
        let owner =
            line.with_context(|| format!("the container did not tell the owner of {path}: {}", told()))?;
        owner.parse()
    }
}
