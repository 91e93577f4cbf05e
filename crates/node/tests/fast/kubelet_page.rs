//! docs/reference/kubelet-configuration.md is what the tables say. `WARDLET_SNAPSHOTS=1` writes it anew.

use std::path::Path;

#[test]
fn the_reference_page_is_written_from_the_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let file = root.join("docs/reference/kubelet-configuration.md");
    let page = node::kubelet::reference_page();
    if std::env::var_os("WARDLET_SNAPSHOTS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap() == page,
        "{} differs: WARDLET_SNAPSHOTS=1",
        file.display()
    );
}
