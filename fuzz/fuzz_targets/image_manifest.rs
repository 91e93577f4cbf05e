#![no_main]
//! A manifest or index, and an image's name: any bytes are understood or refused, and what is chosen from
//! an index runs here.

use images::{Digest, Document, Limits, Platform, Reference, choose};
use libfuzzer_sys::fuzz_target;

fn name(bytes: &[u8]) {
    let Ok(reference) = String::from_utf8_lossy(bytes).parse::<Reference>() else { return };
    // The whole name is read as itself again.
    assert_eq!(reference.to_string().parse::<Reference>().ok().as_ref(), Some(&reference));
    assert!(!reference.repository().split('/').any(|part| matches!(part, "" | "." | "..")));
}

fuzz_target!(|bytes: &[u8]| {
    name(bytes);
    let limits = Limits { layers: 20, ..Limits::default() };
    match Document::parse("fuzz", bytes, &limits) {
        Ok(Document::Manifest(manifest)) => {
            assert!(manifest.layers.len() <= 20);
            let digests = manifest.layers.iter().chain([&manifest.config]).map(|one| &one.digest);
            digests.for_each(|digest| assert_eq!(Digest::from_hex(digest.hex()).as_ref().ok(), Some(digest)));
        }
        Ok(Document::Index(all)) => {
            let here = Platform::here();
            if let Ok(chosen) = choose("fuzz", &all, &here) {
                let fits = |p: &Platform| (&p.os, &p.architecture) == (&here.os, &here.architecture);
                assert!(chosen.platform.as_ref().is_none_or(fits));
            }
        }
        Err(_) => {}
    }
});
