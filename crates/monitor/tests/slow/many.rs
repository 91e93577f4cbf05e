//! Much output through a log, whole and in order; many ends at once.

use crate::support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use support::*;

#[test]
fn sixty_four_mebibytes_are_whole_and_in_order() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    // 64 bytes a line.
    let count = 1 << 20;
    let begun = Instant::now();
    pod.start(&mut client, "one", &format!("seq -f %063.0f 1 {count}; exit 0"));
    assert_eq!(next_exit(&mut client).exit.code(), 0);
    println!("{} bytes in {:?}", count * 64, begun.elapsed());
    let mut expected = 0;
    for line in BufReader::new(std::fs::File::open(pod.log("one")).unwrap()).lines() {
        let line = line.unwrap();
        let (_, text) = line.split_once(" stdout F ").unwrap();
        expected += 1;
        assert_eq!((text.len(), text.parse::<u64>().unwrap()), (63, expected));
    }
    assert_eq!(expected, count);
}

/// Lines longer than a piece, through both streams at once.
#[test]
fn long_lines_are_put_together_again() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let script = "for n in 1 2 3 4 5 6 7 8; do head -c 3000000 /dev/zero | tr '\\0' $n; echo; done & \
                  for n in a b c d; do head -c 3000000 /dev/zero | tr '\\0' $n; echo; done >&2; wait";
    pod.start(&mut client, "one", script);
    assert_eq!(next_exit(&mut client).exit.code(), 0);
    let (mut out, mut err) = (vec![], vec![]);
    for line in pod.lines("one") {
        let (stream, rest) = line.split_at(7);
        let (tag, text) = rest.split_at(2);
        let end = if tag == "F " { "\n" } else { "" };
        assert!(tag == "F " || text.len() == 16 * 1024);
        let to = if stream == "stdout " { &mut out } else { &mut err };
        to.extend_from_slice(text.as_bytes());
        to.extend_from_slice(end.as_bytes());
    }
    let whole = |letters: &str| -> Vec<u8> {
        letters.bytes().flat_map(|byte| std::iter::repeat_n(byte, 3_000_000).chain([b'\n'])).collect()
    };
    assert!(out == whole("12345678"), "{} bytes", out.len());
    assert!(err == whole("abcd"), "{} bytes", err.len());
}

#[test]
fn two_hundred_ends_at_once_are_all_told() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let gate = pod.path("gate");
    for number in 0..200 {
        let script = format!("while [ ! -e {gate:?} ]; do sleep 0.2; done; exit {}", number % 256);
        pod.start(&mut client, &format!("c{number}"), &script);
    }
    let mut other = pod.connect();
    assert_eq!(list(&mut other).len(), 200);
    std::fs::write(&gate, "").unwrap();
    for client in [&mut client, &mut other] {
        let mut ends = BTreeMap::new();
        while ends.len() < 200 {
            let exited = next_exit(client);
            assert!(ends.insert(exited.container, exited.exit).is_none(), "told twice");
        }
        for number in 0..200 {
            let name = format!("c{number}");
            assert_eq!(ends[&name].code(), number);
            assert_eq!(pod.exit(&name).as_ref(), ends.get(&name));
        }
    }
    assert!(list(&mut client).iter().all(|listed| listed.exit.is_some()));
}
