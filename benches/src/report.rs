//! What a run found out: a table for people, JSON for programs.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::growth::{Growth, LIMIT, Verdict};
use crate::machine::Machine;
use crate::measure::{Measure, Side, Unit};
use crate::stats::Estimate;

/// Everything that a run found out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// With it, the order of the runs and the draws of the intervals are the same again.
    pub(crate) seed: u64,
    pub(crate) measures: Vec<Measure>,
    pub(crate) syncs: Vec<SyncCount>,
    /// What a pod costs by the number of pods that run already.
    pub(crate) growths: Vec<Growth>,
    /// What could not be measured here, and why.
    pub(crate) notes: Vec<String>,
}

/// How often one side syncs for a lease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SyncCount {
    pub(crate) side: &'static str,
    pub(crate) callers: &'static str,
    pub(crate) syncs: u64,
    pub(crate) leases: usize,
}

impl SyncCount {
    pub(crate) fn new(side: &'static str, callers: &'static str, syncs: u64, leases: usize) -> Self {
        Self { side, callers, syncs, leases }
    }

    fn per_lease(&self) -> f64 {
        let float = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        float(self.syncs) / float(u64::try_from(self.leases).unwrap_or(u64::MAX).max(1))
    }
}

impl Report {
    pub(crate) fn all_met(&self) -> bool {
        let grow = self.growths.iter().any(|growth| growth.verdict != Verdict::DoesNotGrow);
        !grow && self.measures.iter().filter_map(|m| m.goal.as_ref()).all(|g| g.met)
    }

    pub(crate) fn table(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "{} cores, kernel {}, {}; a 4 KiB append and its fdatasync: p50 {}, p99 {}; load {}; seed {}\n\n",
            machine.cores,
            machine.kernel,
            machine.filesystem,
            time(machine.sync_p50),
            time(machine.sync_p99),
            machine.load,
            self.seed
        );
        let head =
            ["", "n", "ours p50", "p99", "per s", "peer p50", "p99", "per s", "ratio (95 %)", "goal", ""];
        let rows =
            std::iter::once(head.map(str::to_owned)).chain(self.measures.iter().map(row)).collect::<Vec<_>>();
        text.push_str(&aligned(&rows));
        if !self.syncs.is_empty() {
            text.push_str("\nfsync and fdatasync per lease:\n");
        }
        for count in &self.syncs {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {}, {}: {:.2}", count.side, count.callers, count.per_lease());
        }
        if !self.growths.is_empty() {
            text.push_str("\nby the number of pods that run already (95 %):\n");
        }
        for one in &self.growths {
            let _ = writeln!(text, "  {}", growth(one));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\nnote: {note}");
        }
        text
    }

    pub(crate) fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        write(path, &serde_json::to_string_pretty(self)?)
    }
}

/// Writes a file, and the directory it lies in if there is none.
pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn row(measure: &Measure) -> [String; 11] {
    let samples = [&measure.ours, &measure.peer].into_iter().flatten().map(|s| s.samples.len()).max();
    let [ours, ours_99, ours_rate] = side(measure.ours.as_ref(), measure.unit);
    let [peer, peer_99, peer_rate] = side(measure.peer.as_ref(), measure.unit);
    let interval = |e: Estimate| format!("{:.3} ({:.3}-{:.3})", e.value, e.low, e.high);
    let ratio = match (measure.quantiles, measure.ratio, measure.p99) {
        (Some(q), _, _) => format!("p50 {}, p99 {}", interval(q.p50), interval(q.p99)),
        (None, Some(r), _) => interval(r),
        (None, None, Some(p)) => format!("p99 {} ({}-{})", time(p.value), time(p.low), time(p.high)),
        (None, None, None) => String::new(),
    };
    let goal = measure.goal.as_ref();
    let met = goal.map_or("", |g| if g.met { "met" } else { "not met" });
    [
        measure.name.clone(),
        samples.unwrap_or(0).to_string(),
        ours,
        ours_99,
        ours_rate,
        peer,
        peer_99,
        peer_rate,
        ratio,
        goal.map_or_else(String::new, |g| g.says.clone()),
        met.to_owned(),
    ]
}

fn side(side: Option<&Side>, unit: Unit) -> [String; 3] {
    let none = || "-".to_owned();
    match (side.and_then(|s| s.speed), unit) {
        (Some(speed), Unit::Seconds) => {
            [time(speed.p50), time(speed.p99), format!("{:.0}", speed.per_second)]
        }
        (Some(speed), unit) => [value(speed.p50, unit), value(speed.p99, unit), none()],
        (None, _) => [none(), none(), none()],
    }
}

fn growth(growth: &Growth) -> String {
    let estimate = |found: Option<Estimate>, shown: &dyn Fn(f64) -> String| match found {
        Some(found) => format!("{} ({} to {})", shown(found.value), shown(found.low), shown(found.high)),
        None => "-".to_owned(),
    };
    let verdict = match growth.verdict {
        Verdict::DoesNotGrow => "cost per pod does not grow",
        Verdict::Grows => "cost per pod grows",
        Verdict::NotCertain => "not certain whether cost per pod grows",
    };
    format!(
        "{}: {} for each pod; {}: {}, goal ≤ {LIMIT:.2}: {verdict}",
        growth.name,
        estimate(growth.per_pod, &|found| value(found, growth.unit)),
        growth.compares,
        estimate(growth.ratio, &|ratio| format!("{ratio:.3}")),
    )
}

pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => time(value),
        Unit::Bytes if value.abs() < 1e6 => format!("{:.0} kB", value / 1e3),
        Unit::Bytes => format!("{:.1} MB", value / 1e6),
        Unit::Number => format!("{value:.2}"),
    }
}

/// Seconds as people read them.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s.abs() >= 1.0 => format!("{s:.2} s"),
        s if s.abs() >= 0.001 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let widths = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
            let fill = widths.max().unwrap_or(0).saturating_sub(cell.chars().count());
            text.push_str(cell);
            text.push_str(&" ".repeat(fill + 2));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A word on what goes on.
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::{Point, Subject};

    #[test]
    fn times_are_written_in_the_unit_that_fits() {
        assert_eq!([time(0.000_250), time(0.0125), time(3.456)], ["250 µs", "12.50 ms", "3.46 s"]);
        assert_eq!([time(-0.000_250), time(-0.0125)], ["-250 µs", "-12.50 ms"]);
    }

    #[test]
    fn a_cost_that_grows_is_said_so_and_is_a_goal_that_is_not_met() {
        let points = |cost: f64| (0..100).map(move |pods| Point { pods, cost: 1.0 + cost * f64::from(pods) });
        let growth = |cost| {
            let subject = Subject { name: "start".into(), unit: Unit::Seconds };
            Growth::of_each(subject, points(cost).collect(), 20, &mut crate::dice::Dice::new(1))
        };
        let (still, grows) = (growth(0.0), growth(0.1));
        let said = super::growth(&still);
        let expected = "start: 0 µs (0 µs to 0 µs) for each pod; median of the last 20 by the first 20: 1.000 (1.000 to \
                        1.000), goal ≤ 1.10: cost per pod does not grow";
        assert_eq!(said, expected);
        assert!(super::growth(&grows).ends_with("goal ≤ 1.10: cost per pod grows"));
        assert!(Report { growths: vec![still], ..Report::default() }.all_met());
        let report = Report { growths: vec![grows], ..Report::default() };
        assert!(!report.all_met() && report.table().contains("by the number of pods"));
    }

    #[test]
    fn what_is_no_time_has_its_own_unit_and_no_rate() {
        let mut taken = Side::default();
        taken.add_value(52_400_000.0);
        let sides = crate::measure::Sides::only_ours(taken);
        let measure = Measure::new("x", sides, None, &mut crate::dice::Dice::new(1)).in_unit(Unit::Bytes);
        assert_eq!(side(measure.ours.as_ref(), measure.unit), ["52.4 MB", "52.4 MB", "-"]);
        assert_eq!(value(12.5, Unit::Number), "12.50");
        assert_eq!(value(352_000.0, Unit::Bytes), "352 kB");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "b"].map(str::to_owned), ["long", "µ"].map(str::to_owned)];
        assert_eq!(aligned(&rows), "a     b\nlong  µ\n");
    }

    #[test]
    fn syncs_are_counted_by_the_lease() {
        assert_eq!(SyncCount::new("ours", "one caller", 1500, 1000).per_lease(), 1.5);
    }
}
