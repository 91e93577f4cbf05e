//! The API server's own validation, linked into a program, says of generated objects what we say.
//!
//! An object is valid and grown from a small one, or such an object with changes. Its number and the seed
//! make it again: `WARDLET_SEED` sets the seed, `PROPTEST_CASES` how many there are.

mod generate;
mod good;
mod odd;
mod peer;
mod shape;
mod tally;
mod values;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::mpsc::sync_channel;

use manifest::{Finding, Value, read, validate};
use plan::Gates;

use crate::support;
use generate::{Sample, sample};
use peer::Peer;
use shape::{Shape, shapes};
use tally::Tally;

/// A number from the environment.
fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// What we find wrong with an object.
fn faults(text: &str) -> Vec<Finding> {
    let reading = read("object.json", text.as_bytes());
    assert!(reading.skipped.is_empty(), "{text}");
    let checked = reading.objects.iter().flat_map(|object| validate(object, &Gates::default()));
    let checked: Vec<_> = checked.collect();
    reading.findings.into_iter().chain(checked).collect()
}

fn compare(shapes: &[Shape], seed: u64, numbers: std::ops::Range<usize>) -> Tally {
    let (mut peer, mut objects) = Peer::start();
    let (sender, receiver) = sync_channel::<(Sample, Vec<Finding>)>(1_000);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in numbers {
                let sample = sample(shapes, seed, number);
                let text = sample.object.to_string();
                objects.write_all(format!("{text}\n").as_bytes()).unwrap();
                let found = faults(&text);
                sender.send((sample, found)).unwrap();
            }
        });
        let mut tally = Tally::default();
        for (sample, found) in receiver {
            let said = peer.answer();
            tally.add(&sample, &said, &found);
        }
        tally
    })
}

#[test]
fn no_generated_object_is_accepted_here_and_refused_by_the_api_server() {
    let cases = setting("PROPTEST_CASES", 20_000);
    let seed = u64::try_from(setting("WARDLET_SEED", 1)).unwrap();
    let shapes = shapes();
    let tally = compare(&shapes, seed, 1..cases + 1);
    println!("WARDLET_SEED={seed}: {}", tally.report());
    testbed::conformance::record("oracle", &format!("seed {seed}: {}", tally.counts())).unwrap();
    assert_eq!(tally.missing(), 0, "accepted here, refused by the API server: see above");
    assert!(tally.valid * 3 >= tally.objects, "too few valid ones: {} of {}", tally.valid, tally.objects);
    assert_eq!(
        tally.extra(),
        0,
        "refused here without a documented reason, accepted by the API server: see above"
    );
    let refused = tally.documented();
    assert!(refused * 200 <= tally.valid, "refused here, accepted by the API server: {refused}");
}

#[test]
fn the_generator_reaches_every_field_of_the_schema() {
    let shapes = shapes();
    let all: BTreeSet<String> =
        shapes.iter().flat_map(|s| s.fields.iter().map(|f| format!("{}.{}", s.kind, f.path))).collect();
    let reached: BTreeSet<String> = (1..20_001).map(|number| sample(&shapes, 1, number).field).collect();
    let missed: Vec<&String> = all.difference(&reached).collect();
    assert!(missed.is_empty(), "{} of {}: {missed:?}", missed.len(), all.len());
}

/// A value of a manifest's tree as JSON.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Unsigned(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.clone().into(),
        Value::List(items) => items.iter().map(|item| json(&item.value)).collect(),
        Value::Map(entries) => {
            entries.iter().map(|(key, node)| (key.name.to_string(), json(&node.value))).collect()
        }
    }
}

#[test]
fn the_api_server_says_the_same_of_every_difference_that_was_found() {
    let cases = support::found();
    let texts: Vec<String> = cases
        .iter()
        .map(|case| {
            let reading = read("case.yaml", case.text.as_bytes());
            let object =
                reading.objects.first().unwrap_or_else(|| panic!("{}: {:?}", case.name, reading.findings));
            json(&object.tree.value).to_string()
        })
        .collect();
    let mut wrong = Vec::new();
    for (case, said) in cases.iter().zip(Peer::judge(&texts)) {
        if said.accepted != (case.verdict == support::Verdict::Accepted) {
            wrong.push(format!("{}: {said:?}", case.name));
        }
    }
    let same = cases.len() - wrong.len();
    testbed::conformance::record("found", &format!("{same} of {} alike", cases.len())).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
