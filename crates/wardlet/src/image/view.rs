use images::Image;

use crate::output::table;

const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

/// Bytes as people say them, a digit behind the point.
pub(crate) fn size(bytes: u64) -> String {
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

/// One line for each name.
pub(crate) fn images(images: &[Image]) -> String {
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
