//! A full node: a hundred pods in one look.

use crate::test_pods;

use std::time::Instant;

use test_pods::{Site, TestPod, Wanted};

#[test]
fn a_hundred_pods_are_all_found_and_nothing_is_wrong_with_any() {
    let first = 3_700_000_000 / 65_536 * 65_536;
    let site = Site::new(first, 128);
    let started: Vec<TestPod> = (0..100)
        .map(|number| TestPod::start(&Wanted::new(&format!("one-of-many-{number}"), first + number * 65_536)))
        .collect();
    let began = Instant::now();
    let (_, report) = site.json("verify");
    println!("{} pods verified in {:?}", started.len(), began.elapsed());
    let pods = report["pods"].as_array().unwrap();
    for isolated in &started {
        let pod = pods.iter().find(|pod| pod["uid"] == isolated.uid.as_str()).unwrap();
        assert_eq!((&pod["verdict"], &pod["mounts"]), (&"isolated".into(), &2.into()), "{pod:#}");
    }
}
