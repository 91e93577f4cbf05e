//! What a recorder writes down, without root: nothing is made.

use std::path::Path;

use ids::IdBlock;
use kernel::{
    Access, Attributes, Dry, Filesystem, FilesystemKind, Flags, IdMaps, Kernel, Owner, Propagation, Recorder,
    Source, Submounts, Target, Unmount,
};

fn some_calls(kernel: &dyn Kernel) -> kernel::Result<()> {
    let maps = IdMaps::of_block(IdBlock::new(65_536, 65_536).unwrap());
    let userns = kernel.user_namespace(&maps)?;
    let mut clone = kernel.clone_mount(Source::Path(Path::new("/srv/data")), Submounts::Included)?;
    kernel.set_attributes(
        &mut clone,
        &Attributes {
            idmap: Some(&userns),
            access: Access::ReadOnly,
            submounts: Submounts::Included,
            propagation: Some(Propagation::Slave),
            flags: Flags::NOSUID | Flags::NODEV,
        },
    )?;
    kernel.attach(clone, Target::Path(Path::new("/pod/data")))?;
    let owner = Owner { uid: 65_536, gid: 65_536 };
    let kind = FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o777, owner };
    let tmpfs = Filesystem { context: Some("u:r:t:s0:c1,c2".to_owned()), ..Filesystem::new(kind) };
    let tmpfs = kernel.make_filesystem(&tmpfs)?;
    kernel.attach(tmpfs, Target::Path(Path::new("/pod/tmp")))?;
    kernel.unmount(Path::new("/pod/tmp"), Unmount::Lazy)?;
    kernel.forget_user_namespace(&maps)
}

#[test]
fn every_call_is_written_down_in_order_and_can_be_read() {
    let recorder = Recorder::new(Dry);
    some_calls(&recorder).unwrap();
    let expected = "\
user namespace 0:65536:65536
clone /srv/data with mounts below
set the clone of /srv/data: idmap to 0:65536:65536, ro, slave, nosuid, nodev, with mounts below
attach the clone of /srv/data -> /pod/data
make a tmpfs with context u:r:t:s0:c1,c2
attach a tmpfs -> /pod/tmp
unmount /pod/tmp lazily
forget user namespace 0:65536:65536";
    assert_eq!(recorder.lines().join("\n"), expected);
}

#[test]
fn two_runs_of_the_same_are_equal_and_have_a_machine_readable_form() {
    let runs = [Recorder::new(Dry), Recorder::new(Dry)];
    for recorder in &runs {
        some_calls(recorder).unwrap();
    }
    let [one, two] = runs.map(|recorder| recorder.calls());
    assert_eq!(one, two);
    let json = serde_json::to_value(&one).unwrap();
    assert_eq!(json.pointer("/2/set/change/idmap/uids/0/hostId").unwrap(), 65_536);
}
