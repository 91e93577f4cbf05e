//! When a CronJob runs: five fields, or a word for a common schedule.

/// A field of a schedule: its numbers, and names that stand for them from the first on.
struct Unit {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const UNITS: [Unit; 5] = [
    Unit { least: 0, most: 59, names: &[] },
    Unit { least: 0, most: 23, names: &[] },
    Unit { least: 1, most: 31, names: &[] },
    Unit {
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Unit { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// A schedule as the API takes it. A time zone has a field of its own.
pub(super) fn schedule(text: &str) -> Result<(), &'static str> {
    if text.contains("TZ") {
        return Err("must not name a time zone: use timeZone");
    }
    if let Some(duration) = text.strip_prefix("@every ") {
        return if is_duration(duration) {
            Ok(())
        } else {
            Err("must be @every and a duration, such as 1h30m")
        };
    }
    if text.starts_with('@') {
        return if WORDS.contains(&text) { Ok(()) } else { Err("must be a word such as @hourly or @daily") };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let is_right =
        fields.len() == UNITS.len() && fields.iter().zip(&UNITS).all(|(f, unit)| is_field(f, unit));
    if is_right { Ok(()) } else { Err("must be minute, hour, day of month, month and day of week") }
}

fn is_field(field: &str, unit: &Unit) -> bool {
    field.split(',').filter(|part| !part.is_empty()).all(|part| is_range(part, unit))
}

fn is_range(text: &str, unit: &Unit) -> bool {
    let (range, step) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [range] => (*range, None),
        [range, step] => (*range, Some(*step)),
        _ => return false,
    };
    let ends: Vec<&str> = range.split('-').collect();
    let first = ends.first().copied().unwrap_or_default();
    let bounds = match ends.as_slice() {
        _ if first == "*" || first == "?" => Some((unit.least, unit.most)),
        [one] => number(one, unit).map(|start| (start, if step.is_some() { unit.most } else { start })),
        [start, end] => number(start, unit).zip(number(end, unit)),
        _ => None,
    };
    let is_step = step.is_none_or(|step| plain(step).is_some_and(|step| step > 0));
    is_step && bounds.is_some_and(|(start, end)| start >= unit.least && end <= unit.most && start <= end)
}

fn number(text: &str, unit: &Unit) -> Option<u32> {
    let lower = text.to_lowercase();
    let named = unit.names.iter().position(|name| *name == lower);
    match named {
        Some(index) => u32::try_from(index).ok().map(|index| index + unit.least),
        None => plain(text),
    }
}

fn plain(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// A duration as Go writes it: numbers with units.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut is_any = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let is_number = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let is_unit = matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h");
        // Longer numbers have more nanoseconds than 63 bits.
        if !is_number || !is_unit || number.len() > 18 {
            return false;
        }
        (rest, is_any) = (after, true);
    }
    is_any
}

/// Names of the time zone database.
const ZONES: &str = include_str!("zones.txt");

pub(super) fn zone(name: &str) -> Result<(), &'static str> {
    let is_known = ZONES.split_whitespace().any(|zone| zone == name);
    if is_known { Ok(()) } else { Err("must be a time zone of the IANA database, such as Europe/Vienna") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_told_from_what_is_none() {
        let good = [
            "* * * * *",
            "1 2 3 4 5",
            "*/5 0-3 1,15 JAN-mar mon",
            "@daily",
            "@every 1h30m",
            "@every 1.5s",
            "1/2 ? * * *",
            " 1  2 3 4 5 ",
        ];
        assert!(good.iter().all(|text| schedule(text).is_ok()), "{good:?}");
        let bad = [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "a * * * *",
            "-1 * * * *",
            "@sometimes",
            "@every day",
            "@every ",
            "TZ=UTC * * * * *",
        ];
        for text in bad {
            assert!(schedule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zones_are_those_of_the_database() {
        assert!(zone("Europe/Vienna").is_ok() && zone("UTC").is_ok() && zone("Etc/GMT+5").is_ok());
        assert!(zone("Europe/Nowhere").is_err() && zone("Local").is_err() && zone("europe/vienna").is_err());
    }
}
