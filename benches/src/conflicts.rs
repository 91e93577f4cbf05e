//! Upstream's SELinux conflict cache: pods of two labels on one shared volume. We have no such engine
//! yet; the peer's numbers are the baseline for it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::dice::Dice;
use crate::measure::{Measure, Side};
use crate::report::{Report, say};
use crate::subject::Answer;

/// Pods on the volume, and how often that many are loaded. The cost grows with the pairs.
const LOADS: [(usize, usize); 3] = [(100, 100), (300, 20), (1000, 1)];
const DELETES: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    load_ns: u64,
    conflicts: u64,
    list_ns: u64,
    scrape_ns: u64,
    scrape_bytes: u64,
    heap_bytes: u64,
    event_ns: Vec<u64>,
    delete_ns: Vec<u64>,
}

/// Measures the peer at `program`.
pub(crate) fn run(program: &Path, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
    for (pods, times) in LOADS {
        say(&format!("SELinux conflict cache, {pods} pods on one volume"));
        let mut found = [(); 5].map(|()| Side::default());
        let mut size = String::new();
        for _ in 0..times {
            let m = load(program, pods)?;
            let [loads, lists, scrapes, events, deletes] = &mut found;
            loads.add(&once(m.load_ns));
            lists.add(&once(m.list_ns));
            scrapes.add(&once(m.scrape_ns));
            m.event_ns.iter().for_each(|&ns| events.add(&once(ns)));
            m.delete_ns.iter().for_each(|&ns| deletes.add(&once(ns)));
            size = format!(
                "{pods} pods: {} series, {} kB a scrape, {} kB of heap",
                m.conflicts,
                m.scrape_bytes / 1000,
                m.heap_bytes / 1000
            );
        }
        for (what, side) in ["load", "list", "scrape", "event", "delete"].into_iter().zip(found) {
            report.measures.push(Measure::new(
                &format!("{what}, {pods} pods"),
                (None, Some(side)),
                None,
                dice,
            ));
        }
        report.notes.push(format!("SELinux conflict cache with {size}; ours does not exist yet"));
    }
    Ok(())
}

fn once(ns: u64) -> Answer {
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}

fn load(program: &Path, pods: usize) -> anyhow::Result<Measured> {
    let output = Command::new(program)
        .args([pods.to_string(), DELETES.to_string()])
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{} gave no JSON", program.display()))
}
