//! Images of the store as a table, and the progress of a pull or import as text.

use images::{Image, Step};

use crate::table;

const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

/// Bytes in decimal units, with one digit after the point.
#[must_use]
pub fn size(bytes: u64) -> String {
    let mut tenths = bytes.saturating_mul(10);
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if tenths < 10_000 {
            break;
        }
        tenths /= 1000;
        unit = next;
    }
    if unit == "B" {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// Images as a table, a line for each name.
#[must_use]
pub fn images(images: &[Image]) -> String {
    let mut rows = Vec::new();
    for image in images {
        let ids = format!("{}:{}", image.highest.uid.id, image.highest.gid.id);
        let users = if image.users.is_empty() { "-".to_owned() } else { image.users.join(" ") };
        let mut names: Vec<&str> = image.names.iter().map(String::as_str).collect();
        if names.is_empty() {
            names.push(image.digests.first().map_or("-", String::as_str));
        }
        for name in names {
            let id = image.id.short().to_owned();
            rows.push([name.to_owned(), id, size(image.bytes), ids.clone(), users.clone()]);
        }
    }
    table(["NAME", "ID", "SIZE", "HIGHEST-IDS", "USED-BY"], &rows)
}

/// What a step of a pull or import does, and how far it is.
#[must_use]
pub fn step_text(step: Step<'_>) -> (String, String) {
    match step {
        Step::Fetching { what, done, total } => {
            (format!("fetching {}", short(what)), format!(": {} of {}", size(done), size(total)))
        }
        Step::Reading { what, done } => (format!("reading {what}"), format!(": {}", size(done))),
        Step::Unpacking { what, layer, layers, entries } => {
            (format!("unpacking {} ({layer} of {layers})", short(what)), format!(": {entries} entries"))
        }
        Step::Waiting { what } => (format!("waiting for another wardlet at {}", short(what)), String::new()),
        Step::Present { what } => (format!("there already: {}", short(what)), String::new()),
    }
}

/// Twelve digits of a digest tell it from others.
fn short(what: &str) -> String {
    match what.split_once("sha256:") {
        Some((before, hex)) => format!("{before}{}", hex.get(..12).unwrap_or(hex)),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_250_000, "1.2 MB"), (u64::MAX, "1844674.4 TB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
