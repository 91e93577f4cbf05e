//! A full node: a hundred pods in one look.

use crate::wards;

use std::time::Instant;

use wards::{Site, Wanted, Ward};

#[test]
fn a_hundred_pods_are_all_found_and_nothing_is_wrong_with_any() {
    let first = 3_700_000_000 / 65_536 * 65_536;
    let site = Site::new(first, 128);
    let wards: Vec<Ward> = (0..100)
        .map(|number| Ward::start(&Wanted::new(&format!("one-of-many-{number}"), first + number * 65_536)))
        .collect();
    let began = Instant::now();
    let (_, report) = site.json("verify");
    println!("{} pods verified in {:?}", wards.len(), began.elapsed());
    let pods = report["pods"].as_array().unwrap();
    for ward in &wards {
        let pod = pods.iter().find(|pod| pod["uid"] == ward.uid.as_str()).unwrap();
        assert_eq!((&pod["verdict"], &pod["mounts"]), (&"isolated".into(), &2.into()), "{pod:#}");
    }
}
