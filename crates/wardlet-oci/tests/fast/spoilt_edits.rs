//! The edits that the fuzz target makes at random, all of them: the wrapper's own passes its guard, and each one that
//! gives a container more is noticed.

use crate::edits;
use crate::power;

use std::fs;
use std::path::Path;

use serde_json::Value;
use wardlet_oci::spec::{parse, weakened};

/// The configurations that fuzzing starts from; the first four bytes of each choose an edit.
fn seeds() -> Vec<Value> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/oci_spec");
    let files = fs::read_dir(dir).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    files.map(|bytes| parse(&bytes[4..]).unwrap()).collect()
}

/// Every place of a seed, and all that can be done to it.
fn choices() -> impl Iterator<Item = [u8; 4]> {
    let manners = [(0, 24), (1, 24), (2, 8), (3, 8)];
    let manners = manners.into_iter().flat_map(|(how, all)| (0..all).map(move |what| (how, what)));
    (0..120).flat_map(move |place| manners.clone().map(move |(how, what)| [place, 0, how, what]))
}

#[test]
fn the_wrappers_own_edit_passes_its_guard() {
    for spec in seeds() {
        let edited = edits::wrapped(&spec).unwrap();
        assert_eq!((weakened(&spec, &edited), power::gained(&spec, &edited)), (None, None));
    }
}

#[test]
fn each_spoilt_edit_that_gives_a_container_more_is_noticed() {
    for spec in seeds() {
        let edited = edits::wrapped(&spec).unwrap();
        let mut noticed = 0;
        for how in choices() {
            let mut spoilt = edited.clone();
            edits::spoil(&mut spoilt, how);
            let Some(gain) = power::gained(&spec, &spoilt) else { continue };
            assert!(weakened(&spec, &spoilt).is_some(), "{gain}: {spec} became {spoilt}");
            noticed += 1;
        }
        assert!(noticed > 1_000, "{noticed} of {spec}");
    }
}
