//! The answer of `check` as plain text.

use std::collections::{BTreeMap, BTreeSet};

use ::check::{Conflict, Fix, Now, Report, Severity, Verdict, Volume, Weight, When, Workload};

use crate::table::{table, wrapped};

/// All of it in lines of at most 80 columns, but for names that are longer.
#[must_use]
pub fn text(report: &Report) -> String {
    let parts = [
        workloads(&report.workloads),
        reasons(&report.workloads),
        selinux(&report.workloads),
        conflicts(report),
        drivers(report),
        breaks(report),
        totals(report),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn verdict(workload: &Workload) -> String {
    let word = match workload.user_namespace.verdict {
        Verdict::Ready => "ready",
        Verdict::Risky => "risky",
        Verdict::Blocked => "blocked",
    };
    match workload.user_namespace.now {
        Now::Own => format!("{word}, asked for"),
        Now::Host => word.to_owned(),
    }
}

fn workloads(all: &[Workload]) -> String {
    let rows: Vec<[String; 4]> = all
        .iter()
        .map(|workload| {
            let security = &workload.pod_security;
            let then = match &security.with_user_namespace {
                same if *same == security.now => String::new(),
                better => format!(", {better} with a user namespace"),
            };
            [
                workload.object.to_string(),
                verdict(workload),
                workload.pods.to_string(),
                format!("{}{then}", security.now),
            ]
        })
        .collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(["WORKLOAD", "USER NAMESPACE", "PODS", "POD SECURITY"], &rows)
    }
}

fn reasons(all: &[Workload]) -> String {
    let mut text = String::new();
    for workload in all.iter().filter(|w| !w.user_namespace.reasons.is_empty()) {
        text.push_str(&format!("{}: {}\n", workload.object, verdict(workload)));
        for reason in &workload.user_namespace.reasons {
            let word = match reason.weight {
                Weight::Blocks => "blocks",
                Weight::Risks => "risk",
                Weight::Note => "note",
            };
            text.push_str(&wrapped(&format!("  {word}: {}: {}", reason.field, reason.cause), 4));
            text.push_str(&wrapped(&format!("    hint: {}", reason.hint), 6));
        }
    }
    text
}

fn selinux(all: &[Workload]) -> String {
    let mut text = String::new();
    for workload in all {
        for finding in &workload.selinux.findings {
            let when = when(finding.when);
            text.push_str(&wrapped(&format!("{}: {when}: {}", workload.object, finding.cause), 4));
            text.push_str(&wrapped(&format!("    hint: {}", finding.hint), 6));
        }
    }
    text
}

fn when(when: When) -> &'static str {
    match when {
        When::AfterUpgrade => "after the upgrade",
        When::Already => "already",
        When::UntilUpgrade => "until the upgrade",
        When::UnderSelinuxMount => "under the gate SELinuxMount",
    }
}

fn conflicts(report: &Report) -> String {
    let volumes: BTreeMap<&str, &Volume> = report.volumes.iter().map(|v| (v.id.as_str(), v)).collect();
    let fixes: BTreeMap<&str, &Fix> = report.fixes.iter().map(|f| (f.volume.as_str(), f)).collect();
    let mut text = String::new();
    for of_volume in report.conflicts.chunk_by(|a, b| a.volume == b.volume) {
        let id = of_volume.first().map_or("", |conflict| conflict.volume.as_str());
        text.push_str(&volume(id, volumes.get(id).copied()));
        of_volume.iter().for_each(|conflict| text.push_str(&self::conflict(conflict)));
        text.push_str(&fixes.get(id).map(|fix| self::fix(fix)).unwrap_or_default());
    }
    let contested: BTreeSet<&str> =
        report.conflicts.iter().map(|conflict| conflict.volume.as_str()).collect();
    for (id, fix) in fixes.iter().filter(|(id, _)| !contested.contains(*id)) {
        text.push_str(&volume(id, volumes.get(id).copied()));
        text.push_str(&self::fix(fix));
    }
    text
}

fn volume(id: &str, known: Option<&Volume>) -> String {
    let claim = known.and_then(|volume| volume.claim.as_ref());
    let modes = known.map(|volume| volume.access_modes.join(", ")).filter(|modes| !modes.is_empty());
    let facts: Vec<String> = claim.map(|c| format!("claim {c}")).into_iter().chain(modes).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    wrapped(&format!("volume {id}{facts}"), 2)
}

fn conflict(conflict: &Conflict) -> String {
    let side = |side: &::check::ConflictSide| {
        let value = if side.value.is_empty() { "none" } else { side.value.as_str() };
        format!("{} has {value}", side.named())
    };
    let severity = match conflict.severity {
        Severity::OnOneNode => "on one node now",
        Severity::MustMeet => "must meet",
        Severity::MayMeet => "may meet",
        Severity::CannotMeet => "cannot meet",
    };
    let sides = format!("{}, {}", side(&conflict.a), side(&conflict.b));
    let line = format!("  {}: {sides}: {severity}, {}", conflict.property, when(conflict.when));
    wrapped(&line, 4) + &wrapped(&format!("    {}", conflict.why), 4)
}

fn fix(fix: &Fix) -> String {
    let mut text = String::new();
    for (index, option) in fix.options.iter().enumerate() {
        let word = if index == 0 { "fix" } else { "or" };
        text.push_str(&wrapped(&format!("  {word}: {}", option.what), 4));
        text.push_str(&wrapped(&format!("    gives up: {}", option.gives_up.join("; ")), 6));
    }
    text
}

fn drivers(report: &Report) -> String {
    let one = |driver: &::check::Driver| {
        wrapped(&format!("CSI driver {} ({}): {}", driver.name, driver.daemon_set, driver.cause), 2)
            + &wrapped(&format!("    hint: {}", driver.hint), 6)
    };
    report.drivers.iter().map(one).collect()
}

fn breaks(report: &Report) -> String {
    if report.breaks.is_empty() {
        return String::new();
    }
    let upgrade = &report.upgrade;
    let mut text = format!("the upgrade from {} to {} breaks\n", upgrade.from.version, upgrade.to.version);
    report.breaks.iter().for_each(|b| text.push_str(&wrapped(&format!("  {}", b.text), 4)));
    text
}

fn totals(report: &Report) -> String {
    let sum = &report.summary;
    let of = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let line = format!(
        "{}: {} ready, {} risky, {} blocked; {}; the upgrade to {} breaks {}",
        of(sum.workloads, "workload", "workloads"),
        sum.ready,
        sum.risky,
        sum.blocked,
        of(sum.conflicts, "conflict", "conflicts"),
        report.upgrade.to.version,
        if sum.breaks == 0 { "nothing".to_owned() } else { of(sum.breaks, "thing", "things") },
    );
    wrapped(&line, 2)
}
