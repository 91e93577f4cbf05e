use ids::{ContainerId, IdMapping};

use crate::evidence::{Evidence, Owner, Seen};
use crate::lease::Leased;
use crate::script::OnDisk;

/// Something that must hold, and what was found where it does not.
pub(crate) struct Check {
    pub(crate) claim: &'static str,
    pub(crate) faults: Vec<String>,
}

impl Check {
    pub(crate) fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Judges what was seen against the lease.
pub(crate) fn judge(seen: &Evidence, leased: Leased) -> anyhow::Result<Vec<Check>> {
    let root = Owner::outside((leased.uids.base(), leased.gids.base()));
    let process = seen.process.iter().filter(|&&owner| owner != root);
    let first_id = seen.inside.lines("id").first().cloned().unwrap_or_default();
    let id = (!first_id.starts_with("uid=0(root) gid=0(root)")).then(|| format!("`id` says {first_id:?}"));
    Ok(vec![
        check("the namespace maps just the leased block, seen from inside and outside", maps(seen, leased)),
        check(
            "its root is the block's first ID on the host",
            process.map(|o| format!("a process is {o}")).collect(),
        ),
        check("it is root inside", id.into_iter().collect()),
        check("every file has its own owner inside", files(seen, leased, Side::Inside)?),
        check("every file has a leased owner outside", files(seen, leased, Side::Outside)?),
        check(
            "on disk, volume and image keep their owners; only the upper layer is the block's",
            files(seen, leased, Side::Disk)?,
        ),
        check(
            "no file of the volume or the image was touched",
            seen.touched.iter().map(|p| format!("{} changed", p.display())).collect(),
        ),
        check("the host's mount table shows nothing of it", seen.host_mounts.clone()),
    ])
}

fn check(claim: &'static str, faults: Vec<String>) -> Check {
    Check { claim, faults }
}

fn maps(seen: &Evidence, leased: Leased) -> Vec<String> {
    let (uid, gid) = (text(leased.uid_map()), text(leased.gid_map()));
    let found = [
        ("uid_map outside", &seen.uid_map, &uid),
        ("gid_map outside", &seen.gid_map, &gid),
        ("uid_map inside", &seen.inside.map("uid_map"), &uid),
        ("gid_map inside", &seen.inside.map("gid_map"), &gid),
    ];
    let wrong = found.into_iter().filter(|(_, found, leased)| found != leased);
    wrong.map(|(what, found, leased)| format!("{what} is {found:?}, the lease {leased:?}")).collect()
}

fn text(mapping: IdMapping) -> String {
    format!("{} {} {}", mapping.container(), mapping.host().first(), mapping.length())
}

#[derive(Clone, Copy)]
enum Side {
    Inside,
    Outside,
    Disk,
}

fn files(seen: &Evidence, leased: Leased, side: Side) -> anyhow::Result<Vec<String>> {
    let mut faults = vec![];
    for file in &seen.files {
        let (found, expected) = owners(file, leased, side)?;
        if found != expected {
            faults.push(format!("{} is {found}, not {expected}", file.file.path));
        }
    }
    Ok(faults)
}

fn owners(seen: &Seen, leased: Leased, side: Side) -> anyhow::Result<(Owner, Owner)> {
    let id = ContainerId::try_from(u64::from(seen.file.id))?;
    let (inside, outside) = (Owner::inside(id, id), Owner::outside(leased.on_host(id, id)?));
    Ok(match (side, seen.file.on_disk) {
        (Side::Inside, _) => (seen.inside, inside),
        (Side::Outside, _) => (seen.through_root, outside),
        (Side::Disk, OnDisk::Upper) => (seen.on_disk, outside),
        (Side::Disk, OnDisk::Volume | OnDisk::NewInVolume | OnDisk::Layer) => (seen.on_disk, inside),
    })
}
