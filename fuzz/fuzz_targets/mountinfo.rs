#![no_main]
//! A mountinfo file: any text is read or refused, and each mount is found again by its number and its point.

use kernel::MountTable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(table) = MountTable::parse(&String::from_utf8_lossy(bytes)) else { return };
    for mount in table.iter() {
        assert!(table.by_id(mount.id).is_some_and(|found| found.id == mount.id));
        assert!(table.at(&mount.point).is_some_and(|found| found.point == mount.point));
        let _ = (mount.idmapped(), mount.read_only(), mount.context());
    }
});
